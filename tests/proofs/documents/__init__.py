"""Proof of five documents of other people about GPUs in Kubernetes, line by line."""
