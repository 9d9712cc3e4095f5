"""The laws, one idea a file; ``tools.conform.registry`` lists them all."""
