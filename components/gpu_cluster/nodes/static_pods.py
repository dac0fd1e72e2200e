"""State of a control plane, as its static pods show it. No request is made here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class StaticPods:
    """Static pods of etcd and of the API servers, as the API server reports them.

    Attributes:
        servers: Version of the API server on each control-plane node, without the letter v. Empty
            text if the image's tag is no version.
        down: Node of each pod that isn't ready, by name of the pod. Empty if etcd has fewer than
            two members in pods: a single member may be changed, and members outside of pods are
            somebody else's to watch.
    """

    servers: Mapping[str, str] = field(default_factory=dict)
    down: Mapping[str, str] = field(default_factory=dict)
