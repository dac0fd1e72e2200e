"""Measure the structure of the program by its syntax tree: `make house`."""
