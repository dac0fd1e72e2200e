"""Labels, taints, draining and records of nodes."""
