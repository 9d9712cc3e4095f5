"""The Grafana dashboard of a server: its panels, and the file made of them."""
