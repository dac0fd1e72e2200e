"""Kubernetes' own rules: quantities and what a pod requests. Pure functions.

Everything else of this project may import this package; it imports nothing. Its results are those
of Kubernetes' Go code.
"""
