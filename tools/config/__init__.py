"""config.json on the command line: what it becomes, checking it, explaining it."""
