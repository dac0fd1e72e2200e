"""Explain why a pod does not run, from the pod's status and events and other cluster objects."""
