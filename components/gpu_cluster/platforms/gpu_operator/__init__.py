"""Platform `gpu-operator`: NVIDIA's GPU Operator."""
