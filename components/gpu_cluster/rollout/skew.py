"""Allowed version changes of a Kubernetes control plane and of its nodes. Pure functions.

Sources: Kubernetes documentation, "Version Skew Policy" (the kubelet is never newer than the API
server) and "Upgrading kubeadm clusters" (no minor version is skipped).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpu_rules.facts.transitions import Verdict, judge
from gpu_rules.printable import printable

_VERSION = re.compile(r"v?(\d{1,3})\.(\d{1,3})\.(\d{1,3})")


@dataclass(frozen=True)
class ControlPlane:
    """Control plane that the stack created, which a rollout upgrades with `kubeadm upgrade`.

    Attributes:
        hosts: Name of the host by name of its node, in the order of the upgrade: the first host
            runs `kubeadm upgrade apply`.
        version: Declared version.
    """

    hosts: Mapping[str, str]
    version: str

    def is_newer(self, server: str) -> bool:
        """Return whether the declared version is newer than the API server's.

        The result is false if the API server's version is unknown.
        """
        return bool(numbers(server)) and numbers(server) < numbers(self.version)

    def behind(self, servers: Mapping[str, str], server: str) -> ControlPlane:
        """Return the part of the control plane whose API servers are older than declared.

        Args:
            servers: Version of the API server on each control-plane node.
            server: Version of the API server that answered, for a node that `servers` lacks.
        """
        hosts = {
            node: host
            for node, host in self.hosts.items()
            if self.is_newer(servers.get(node) or server)
        }
        return replace(self, hosts=hosts)

    def refusal(self, server: str) -> str:
        """Return why the API server can't be upgraded to the declared version; empty if it can."""
        return (
            ""
            if _is_next_minor(server, self.version)
            else _skipped_version_text("an API server", server, self.version)
        )


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a Kubernetes version; empty if the text is not a version."""
    match = _VERSION.match(version)
    return tuple(map(int, match.groups())) if match else ()


def oldest(versions: Iterable[str]) -> str:
    """Return the oldest of Kubernetes versions; empty if none of the texts is a version."""
    return min(filter(numbers, versions), key=numbers, default="")


def kubelet_refusal(old: str, new: str, server: str, cure: str) -> str:
    """Return why a kubelet's version can't change this way; empty if it can.

    Args:
        old: Current version of the kubelet.
        new: Declared version of the kubelet.
        server: Version that the API server will have. Empty if unknown.
        cure: How to upgrade an API server that is too old, for the message.
    """
    if not _is_next_minor(old, new):
        return _skipped_version_text("kubelet", old, new)
    if server and numbers(server)[:2] < numbers(new)[:2]:
        return (
            f"found an API server {printable(server)} and kubelet {new}; wanted a control plane "
            f"that is not older; {cure}"
        )
    return ""


def _is_next_minor(old: str, new: str) -> bool:
    return judge("kubernetes", old, new).verdict is Verdict.SUPPORTED


def _skipped_version_text(component: str, old: str, new: str) -> str:
    return (
        f"found {component} {printable(old)} → {new}; wanted one minor version forward at a time; "
        "declare the next one first"
    )
