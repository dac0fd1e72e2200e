"""Names as Kubernetes writes them, checked when they are read.

They become parts of URLs and of what people read. A release's record is no more than a Secret,
whose content nobody has validated.
"""

from __future__ import annotations

import re
from typing import Any, Final

from components.kubernetes.api import ClusterError
from policies.faults import Fault
from policies.printable import printable

SHOWN: Final = 80
"""Characters of an ill-formed name that its error shows."""

#: Path segments (apimachinery v0.34 pkg/api/validation/path: no `/`, no `%`, not `.` or `..`) of
#: the characters that names have: subdomains (RFC 1123), and RBAC's with `:` and capitals.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:_-]{0,251}[A-Za-z0-9])?")
#: A label of RFC 1123 (apimachinery v0.34 pkg/util/validation, IsDNS1123Label), or none.
_NAMESPACE = re.compile(r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_API_VERSION = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?v[0-9a-z]{1,30}")
#: A subdomain (RFC 1123), which names of nodes are.
_NODE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class IllFormed(ClusterError):
    """Something that was read isn't what Kubernetes would have taken."""


def _checked(value: Any, pattern: re.Pattern[str], what: str) -> str:
    if isinstance(value, str) and pattern.fullmatch(value):
        return value
    found, wanted = printable(repr(value), SHOWN), "what Kubernetes takes for it"
    raise IllFormed(Fault(what, found, wanted, "look who wrote it, and remove it"))


def name(value: Any) -> str:
    """An object's name.

    Raises:
        IllFormed: it isn't one; so do all functions here.
    """
    return _checked(value, _NAME, "name of an object")


def namespace(value: Any) -> str:
    """A namespace's name; empty for objects of the cluster."""
    return _checked(value, _NAMESPACE, "namespace of an object")


def kind(value: Any) -> str:
    """An object's kind."""
    return _checked(value, _KIND, "kind of an object")


def api_version(value: Any) -> str:
    """An API group's version, such as ``apps/v1``."""
    return _checked(value, _API_VERSION, "apiVersion of an object")


def node(value: Any) -> str:
    """A node's name."""
    return _checked(value, _NODE, "name of a node")
