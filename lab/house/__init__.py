"""Measures the shape of the program by its syntax tree: `make house`."""
