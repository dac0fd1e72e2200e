"""Check that names read from a cluster are valid Kubernetes names.

These names become parts of URLs and of messages. The record of a Helm release is only a Secret, so
nothing has validated the names in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from gpu_cluster.kubernetes.api import ClusterError
from gpu_rules.faults import Fault
from gpu_rules.kube.names import is_dns_label, is_dns_subdomain
from gpu_rules.printable import printable

SHOWN: Final = 80
"""Maximum number of characters of an invalid name in an error message."""

# One segment of a URL path (apimachinery v0.34 pkg/api/validation/path: no `/`, no `%`, not `.` or
# `..`), limited to the characters of RFC 1123 subdomains, plus `:` and capitals for RBAC names.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:_-]{0,251}[A-Za-z0-9])?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_VERSION = re.compile(r"v[0-9a-z]{1,30}")


class IllFormed(ClusterError):
    """A name or a Helm release record that was read from the cluster is not valid."""


def _check_value(value: Any, is_valid: Callable[[str], object], subject: str) -> str:
    if isinstance(value, str) and is_valid(value):
        return value
    found, wanted = printable(repr(value), SHOWN), "a value that Kubernetes accepts here"
    raise IllFormed(
        Fault(
            subject,
            found,
            wanted,
            "find out which program wrote this object, and delete the object",
        )
    )


def _is_namespace(text: str) -> bool:
    return not text or is_dns_label(text)


def _is_api_version(text: str) -> bool:
    group, slash, version = text.rpartition("/")
    return _VERSION.fullmatch(version) is not None and (not slash or is_dns_subdomain(group))


def name(value: Any) -> str:
    """Return an object's name if it is valid.

    Raises:
        IllFormed: The name is invalid.
    """
    return _check_value(value, _NAME.fullmatch, "name of an object")


def namespace(value: Any) -> str:
    """Return a namespace's name if it is valid; it is empty for cluster-scoped objects.

    Raises:
        IllFormed: The name is invalid.
    """
    return _check_value(value, _is_namespace, "namespace of an object")


def kind(value: Any) -> str:
    """Return an object's kind if it is valid.

    Raises:
        IllFormed: The kind is invalid.
    """
    return _check_value(value, _KIND.fullmatch, "kind of an object")


def api_version(value: Any) -> str:
    """Return an `apiVersion` such as `apps/v1` if it is valid.

    Raises:
        IllFormed: The text is invalid.
    """
    return _check_value(value, _is_api_version, "apiVersion of an object")


def node(value: Any) -> str:
    """Return a node's name if it is valid.

    Raises:
        IllFormed: The name is invalid.
    """
    return _check_value(value, is_dns_subdomain, "name of a node")
