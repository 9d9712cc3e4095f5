"""What a change of the contract does to those who use it: a comparison of two specs, with requests that show it."""
