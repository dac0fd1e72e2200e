"""Rules against access to GPUs that bypasses the device plugin."""
