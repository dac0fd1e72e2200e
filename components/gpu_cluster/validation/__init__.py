"""Validation of GPUs: kernels on each GPU, and user-defined tests."""
