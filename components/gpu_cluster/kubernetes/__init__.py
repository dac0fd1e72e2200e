"""Access to the Kubernetes API, and names that Kubernetes and NVIDIA define."""
