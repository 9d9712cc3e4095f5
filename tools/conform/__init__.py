"""The conformance test of any server over HTTP: laws, the requests that they send, and the report."""
