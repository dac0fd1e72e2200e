"""The grammar of Kubernetes names: of objects, of label keys and values, of resources.

Source: k8s.io/apimachinery v0.36.3 pkg/api/validate/content (dns.go and kube.go), if a
function names no other.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

LABEL_LIMIT: Final = 63
"""Maximum number of characters of a DNS label, of a label value, and of the name in a label key."""
SUBDOMAIN_LIMIT: Final = 253
"""Maximum number of characters of a DNS subdomain, such as the name of a node."""

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
HUGE_PAGES: Final = "hugepages-"
"""Prefix of the resources that count huge pages of one size."""


def is_dns_label(text: str) -> bool:
    """Return whether a text is an RFC 1123 label, such as the name of a namespace."""
    return len(text) <= LABEL_LIMIT and _LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Return whether a text is an RFC 1123 subdomain in lower case, such as the name of a node.

    Kubernetes limits the whole text to 253 characters, and no part between dots.
    """
    return len(text) <= SUBDOMAIN_LIMIT and _SUBDOMAIN.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    """Return whether a text can be the value of a label; the empty text can."""
    return not text or (len(text) <= LABEL_LIMIT and _LABEL_VALUE.fullmatch(text) is not None)


@lru_cache(maxsize=4096)
def is_qualified_name(text: str) -> bool:
    """Return whether a text has the form of a label key: `name`, or `prefix/name`."""
    prefix, slash, name = text.rpartition("/")
    return bool(name) and is_label_value(name) and (not slash or is_dns_subdomain(prefix))


@lru_cache(maxsize=4096)
def is_extended_resource(name: str) -> bool:
    """Return whether a resource without a unit of its own has this name, such as nvidia.com/gpu.

    Source: kubernetes v1.36.3 pkg/apis/core/helper/helpers.go IsExtendedResourceName and
    IsNativeResource, which searches for `kubernetes.io/` anywhere in the name.
    """
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return is_qualified_name(f"requests.{name}")


def is_container_resource(name: str) -> bool:
    """Return whether the API server accepts a name in a container's requests and limits.

    Source: kubernetes v1.36.3 pkg/apis/core/validation/validation.go ValidateContainerResourceName.
    """
    if not is_qualified_name(name):
        return False
    if "/" not in name:
        return name in NATIVE or name.startswith(HUGE_PAGES)
    return "kubernetes.io/" in name or is_extended_resource(name)
