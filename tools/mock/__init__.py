"""What `mindspec mock` has beyond the server: faults on demand, scripts, and how both reach the mock engine."""
