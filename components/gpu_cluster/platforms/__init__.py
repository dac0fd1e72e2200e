"""Platforms: the software that advertises GPUs to Kubernetes, one subfolder per platform."""
