"""Compare NVIDIA's real GPU Operator with the simulated GPU Operator on embedded control planes."""
