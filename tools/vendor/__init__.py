"""Fetches the JavaScript of others that the pages use, and verifies what is committed of it."""
