"""Check that names read from a cluster are valid Kubernetes names.

These names become parts of URLs and of messages. The record of a Helm release is only a Secret, so
nothing has validated the names in it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from components.kubernetes.api import ClusterError
from policies.faults import Fault
from policies.printable import printable

SHOWN: Final = 80
"""Maximum number of characters of an invalid name in an error message."""

# One segment of a URL path (apimachinery v0.34 pkg/api/validation/path: no `/`, no `%`, not `.` or
# `..`), limited to the characters of RFC 1123 subdomains, plus `:` and capitals for RBAC names.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:_-]{0,251}[A-Za-z0-9])?")
# An RFC 1123 label (apimachinery v0.34 pkg/util/validation, IsDNS1123Label), or an empty text.
_NAMESPACE = re.compile(r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_API_VERSION = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?v[0-9a-z]{1,30}")
# Names of nodes are RFC 1123 subdomains.
_NODE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class IllFormed(ClusterError):
    """A name or a Helm release record that was read from the cluster is not valid."""


def _checked(value: Any, pattern: re.Pattern[str], what: str) -> str:
    if isinstance(value, str) and pattern.fullmatch(value):
        return value
    found, wanted = printable(repr(value), SHOWN), "what Kubernetes takes for it"
    raise IllFormed(Fault(what, found, wanted, "find out who wrote it, and delete it"))


def name(value: Any) -> str:
    """Return an object's name if it is valid.

    Raises:
        IllFormed: The name is invalid.
    """
    return _checked(value, _NAME, "name of an object")


def namespace(value: Any) -> str:
    """Return a namespace's name if it is valid; it is empty for cluster-scoped objects.

    Raises:
        IllFormed: The name is invalid.
    """
    return _checked(value, _NAMESPACE, "namespace of an object")


def kind(value: Any) -> str:
    """Return an object's kind if it is valid.

    Raises:
        IllFormed: The kind is invalid.
    """
    return _checked(value, _KIND, "kind of an object")


def api_version(value: Any) -> str:
    """Return an `apiVersion` such as `apps/v1` if it is valid.

    Raises:
        IllFormed: The text is invalid.
    """
    return _checked(value, _API_VERSION, "apiVersion of an object")


def node(value: Any) -> str:
    """Return a node's name if it is valid.

    Raises:
        IllFormed: The name is invalid.
    """
    return _checked(value, _NODE, "name of a node")
