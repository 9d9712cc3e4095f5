"""Stands between a client and any server, passes every byte on, and tells the breaches of either side."""
