"""The report: one HTML page about a stack's GPUs, what would change, figures and versions."""
