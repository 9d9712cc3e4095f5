"""The contract search: boundary values, witnesses, the corpus and random valid requests, all found from the spec."""
