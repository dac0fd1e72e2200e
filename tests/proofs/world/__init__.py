"""Proofs on files that others wrote for other programs."""
