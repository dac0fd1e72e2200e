"""Cures that are followed, and causes that are named: `make test-advice`."""
