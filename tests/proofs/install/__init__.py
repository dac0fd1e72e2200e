"""Proof of the packages: a site that has only the wheels of a release, and nothing of the clone."""
