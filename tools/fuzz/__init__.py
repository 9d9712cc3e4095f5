"""Random plans, valid and invalid ones, against the native step built with sanitisers: ``python -m tools.fuzz``."""
