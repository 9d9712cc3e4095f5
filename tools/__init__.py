"""The command line: serve, mock, generate, and the contract tool chain."""
