"""The command that checks a spec."""
