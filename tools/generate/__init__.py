"""The generator: reads the spec, checks it, and writes generated/."""
