"""A policy pack that judges nothing: it writes what a program declares to a file."""
