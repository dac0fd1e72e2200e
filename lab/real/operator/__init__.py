"""NVIDIA's GPU Operator on the embedded control plane, and the simulated one beside it."""
