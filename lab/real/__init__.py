"""Tests with real components but without a GPU: kubelet, containerd, NVIDIA's plugin and runtime.

Two nodes run the real components on GPUs that a mock of NVML simulates. `make test-real` runs these
tests (docs/real-parts.md); only they need Linux, root and a C compiler.
"""
