"""The pages for readers: the contract's documentation, the page that tries requests, and what they need."""
