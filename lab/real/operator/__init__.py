"""Compare NVIDIA's GPU Operator with the simulated one on the embedded control plane."""
