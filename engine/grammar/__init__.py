"""Grammars: forms that a choice's tokens are held to while they are drawn."""
