"""Rules for workloads that waste GPUs or fail late."""
