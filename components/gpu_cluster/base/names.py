"""Types of fields that hold Kubernetes names, label keys and label values.

Source of reserved prefixes: the NodeRestriction admission plugin and
kubernetes.io/docs/reference/labels-annotations-taints.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, StrictStr

from gpu_cluster.base.document_cures import rename_to
from gpu_rules.faults import refuse, show
from gpu_rules.kube.names import (
    LABEL_LIMIT,
    is_dns_label,
    is_dns_subdomain,
    is_label_value,
    is_qualified_name,
)

# The host names of a Job's pods contain the pool's name and have at most 63 characters.
POOL_NAME_LIMIT = 40

# Prefixes below kubernetes.io and k8s.io that an administrator may set on nodes.
_FREE_FOR_ADMINISTRATORS = (
    "node.kubernetes.io",
    "node-role.kubernetes.io",
    "node-restriction.kubernetes.io",
)


ZONE = "topology.kubernetes.io/zone"
"""Label of nodes that fail together: of one rack, or with one power feed."""
PLACES = (ZONE, "topology.kubernetes.io/region")
"""Labels of Kubernetes that administrators set where no cloud provider does.

Source: Kubernetes documentation, "Well-Known Labels, Annotations and Taints".
"""
NFD_PREFIX = "feature.node.kubernetes.io/"
"""Prefix of the labels that Node Feature Discovery (NFD) sets for features."""


def _dns_label(text: str) -> str:
    if not is_dns_label(text):
        raise refuse(
            show(text),
            "an RFC 1123 label: at most 63 of a-z, 0-9 and '-', a letter or digit at both ends",
            _nearest_name(text, LABEL_LIMIT),
        )
    return text


def _dns_subdomain(text: str) -> str:
    if not is_dns_subdomain(text):
        raise refuse(
            show(text),
            "an RFC 1123 subdomain in lower case, at most 253 characters",
            "write the object's name as `kubectl get` prints it",
        )
    return text


def _own_namespace(text: str) -> str:
    _dns_label(text)
    if text == "default" or text.startswith("kube-"):
        raise refuse(
            show(text),
            "a separate namespace, because it is created and deleted with the stack",
            "remove it, or write another name, such as gpu-software",
        )
    return text


def _config_name(text: str) -> str:
    if text in ("", "config") or not is_label_value(text):
        raise refuse(
            show(text),
            "a name that is a label value, and not config, the name of the default",
            "choose a name such as mig-single",
        )
    return text


def _pool_name(text: str) -> str:
    if not is_dns_label(text) or len(text) > POOL_NAME_LIMIT:
        raise refuse(
            show(text),
            f"a pool name: at most {POOL_NAME_LIMIT} of a-z, 0-9 and '-',"
            " a letter or digit at both ends",
            _nearest_name(text, POOL_NAME_LIMIT),
        )
    return text


def _node_name(text: str) -> str:
    if not is_dns_subdomain(text):
        raise refuse(
            show(text),
            "a node name: an RFC 1123 subdomain in lower case, at most 253 characters",
            "write a name such as gpu-1; `kubectl get nodes` prints them",
        )
    return text


def _nearest_name(text: str, limit: int) -> str:
    near = re.sub(r"[^a-z0-9]+", "-", text.lower())[:limit].strip("-")
    return f"write {show(near)}" if near else "choose a name such as a100"


def qualified_key(text: str) -> str:
    """Return a label or taint key if it is valid: `name`, or `prefix/name` with a DNS subdomain.

    Raises:
        PydanticCustomError: The key is invalid.
    """
    if not is_qualified_name(text):
        raise refuse(
            show(text),
            "a key: [prefix/]name, the name at most 63 of A-Z, a-z, 0-9, '-', '_' and '.',"
            " the prefix a DNS subdomain",
            "write a key such as nvidia.com/gpu",
        )
    return text


def label_value(text: str) -> str:
    """Return a label or taint value if it is valid: empty, or the syntax of a key's name.

    Raises:
        PydanticCustomError: The value is invalid.
    """
    if not is_label_value(text):
        raise refuse(
            show(text),
            "a label value: empty, or at most 63 of A-Z, a-z, 0-9, '-', '_' and '.',"
            " a letter or digit at both ends",
            "shorten it or leave the other characters out",
        )
    return text


def own_key(text: str) -> str:
    """Return a label or taint key if users may set it; Kubernetes reserves some prefixes.

    Raises:
        PydanticCustomError: The key is invalid or reserved.
    """
    prefix = qualified_key(text).rpartition("/")[0]
    reserved = any(
        prefix == root or prefix.endswith(f".{root}") for root in ("kubernetes.io", "k8s.io")
    )
    if reserved and prefix not in _FREE_FOR_ADMINISTRATORS:
        raise refuse(
            show(text),
            "a key outside kubernetes.io/ and k8s.io/, which Kubernetes keeps for itself"
            f" (allowed below them: {', '.join(f'{p}/' for p in _FREE_FOR_ADMINISTRATORS)})",
            rename_to(f"example.com/{text.rpartition('/')[2]}") + "; with a prefix of your own",
        )
    return text


def own_label_key(text: str) -> str:
    """Return a label key unless it is reserved; features and places of nodes are not reserved.

    Without Node Feature Discovery, people label nodes with features by hand (NVIDIA GPU Operator
    documentation, "Node Feature Discovery").

    Raises:
        PydanticCustomError: The key is invalid or reserved.
    """
    is_free = text in PLACES or text.startswith(NFD_PREFIX)
    return qualified_key(text) if is_free else own_key(text)


ConfigName = Annotated[StrictStr, AfterValidator(_config_name)]
DnsLabel = Annotated[StrictStr, AfterValidator(_dns_label)]
DnsSubdomain = Annotated[StrictStr, AfterValidator(_dns_subdomain)]
OwnNamespace = Annotated[StrictStr, AfterValidator(_own_namespace)]
PoolName = Annotated[StrictStr, AfterValidator(_pool_name)]
NodeName = Annotated[StrictStr, AfterValidator(_node_name)]
LabelKey = Annotated[StrictStr, AfterValidator(qualified_key)]
OwnLabelKey = Annotated[StrictStr, AfterValidator(own_label_key)]
LabelValue = Annotated[StrictStr, AfterValidator(label_value)]
