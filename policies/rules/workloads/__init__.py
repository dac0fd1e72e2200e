"""Workloads that waste GPUs or fail late."""
