"""Tests with real components but without a GPU: kubelet, containerd, NVIDIA's plugin and runtime.

The real components run on two nodes whose GPUs are simulated by a mock of the NVML library. `make
test-real` runs these tests (docs/explanation/real-parts.md); they are the only tests that need
Linux, root and a C compiler.
"""
