"""Two nodes of real parts without a GPU: kubelet, containerd, NVIDIA's plugin and runtime.

Their GPUs are a mock of NVML. The proof behind ``make test-real`` (docs/real-parts.md): it needs
Linux, root and a C compiler, and nothing else of the project needs it.
"""
