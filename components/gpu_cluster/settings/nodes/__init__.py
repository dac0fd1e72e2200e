"""Models of pools, their nodes, and scheduling settings."""
