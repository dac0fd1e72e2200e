"""Platform `device-plugin`: NVIDIA's device plugin."""
