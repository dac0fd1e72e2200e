"""What we deploy: one ComponentResource per file, values and scripts from pure functions."""
