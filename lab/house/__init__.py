"""Measure the structure of this project's source code by its syntax trees (`make house`)."""
