"""The contract for its readers: the published OpenAPI documents, the page made of them, the table of parameters."""
