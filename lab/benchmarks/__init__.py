"""Benchmarks of this project: each result is a ratio to another tool or to a minimum time."""
