"""Proof that everything in the documentation runs: `make test-docs`."""
