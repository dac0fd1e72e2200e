"""The container engine of a node, as its kubelet reports it."""

from __future__ import annotations

import re
from typing import NamedTuple

_REPORTED = re.compile(r"([a-z0-9-]{1,40})://v?([0-9][0-9A-Za-z.~+-]{0,100})?")


class NodeEngine(NamedTuple):
    """Container engine of a node.

    Attributes:
        name: Name, such as `containerd`, `cri-o` or `docker`. Empty: not reported.
        version: Version without a leading `v`, such as `1.7.20-k3s1`. Empty: not reported.
    """

    name: str
    version: str


def parse_engine(text: object) -> NodeEngine:
    """Return the engine in a Node's `status.nodeInfo.containerRuntimeVersion`.

    The kubelet writes `<name>://<version>` with what the engine says over CRI (kubernetes v1.34,
    pkg/kubelet/nodestatus/setters.go, VersionInfo); K3s and RKE2 add their own ending.
    """
    match = _REPORTED.match(text) if isinstance(text, str) else None
    return NodeEngine(match[1], match[2] or "") if match else NodeEngine("", "")
