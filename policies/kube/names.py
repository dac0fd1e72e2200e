"""The grammar of Kubernetes names."""

from __future__ import annotations


def is_extended(name: str) -> bool:
    """Return whether the API server treats a resource name as an extended resource.

    Source: kubernetes v1.34.4 pkg/apis/core/helper/helpers.go IsExtendedResourceName and
    IsNativeResource, which searches for `kubernetes.io/` anywhere in the name.
    """
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
