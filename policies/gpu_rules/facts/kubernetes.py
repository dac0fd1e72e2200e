"""The Kubernetes version for which Helm charts are rendered."""

from typing import Final

KUBE_VERSION: Final = "v1.36.3"
"""Kubernetes version that charts are rendered for: the version of the embedded test cluster."""
