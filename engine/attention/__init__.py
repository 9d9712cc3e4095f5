"""Attention over pages: the seam into transformers' models, and one file per device behind it."""
