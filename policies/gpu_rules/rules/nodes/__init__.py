"""Rules for nodes that have GPUs."""
