"""The engine room: runs models, knows nothing of HTTP or of the contract."""
