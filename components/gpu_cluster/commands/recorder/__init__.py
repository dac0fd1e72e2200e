"""A policy pack without rules: it writes the inputs of all declared resources to a file."""
