"""Namespaces and their limits."""
