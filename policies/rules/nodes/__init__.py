"""Nodes that have GPUs."""
