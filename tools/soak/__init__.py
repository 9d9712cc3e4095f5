"""A long mixed load on one server, cancelled and killed in the middle: every answer must be the answer alone."""
