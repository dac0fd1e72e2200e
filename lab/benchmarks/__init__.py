"""Benchmarks: each figure is a ratio to another tool or to a minimum, measured in one run."""
