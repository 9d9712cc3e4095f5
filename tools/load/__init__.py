"""Load on inference servers: one client, several servers in turns, and what the comparison says."""
