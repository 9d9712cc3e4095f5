"""The part of each family that needs its processors but no weights."""
