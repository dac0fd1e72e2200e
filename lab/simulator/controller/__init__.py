"""The process that stands for device plugin, GPU Operator and validation outcomes."""
