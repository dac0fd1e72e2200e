"""Which version of Kubernetes may follow another on a control plane and on its nodes. Pure.

Source: Kubernetes documentation, "Version Skew Policy" (kubelet is never newer than the API server)
and "Upgrading kubeadm clusters" (no minor version is skipped).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from policies.printable import printable

_VERSION = re.compile(r"v?(\d{1,3})\.(\d{1,3})\.(\d{1,3})")


@dataclass(frozen=True)
class ControlPlane:
    """The control plane that the stack made, which a rollout upgrades by `kubeadm upgrade`.

    Attributes:
        host: the name of the host whose kubeadm upgrades it.
        version: the declared one.
    """

    host: str
    version: str

    def is_newer(self, server: str) -> bool:
        """Whether another version is declared than an API server has; not where none was seen."""
        return bool(numbers(server)) and numbers(server) < numbers(self.version)

    def refusal(self, server: str) -> str:
        """Why it can't be upgraded from an API server's version; empty where it can."""
        return (
            "" if _follows(server, self.version) else _skips("an API server", server, self.version)
        )


def numbers(version: str) -> tuple[int, ...]:
    """A version of Kubernetes; empty where it is none."""
    match = _VERSION.match(version)
    return tuple(map(int, match.groups())) if match else ()


def kubelet_refusal(old: str, new: str, server: str, cure: str) -> str:
    """Why a kubelet's version can't change so; empty where it can.

    Args:
        old: its version.
        new: the declared one.
        server: version of the API server that it will have; empty where none was seen.
        cure: what makes an API server newer that is too old.
    """
    if not _follows(old, new):
        return _skips("kubelet", old, new)
    if server and numbers(server)[:2] < numbers(new)[:2]:
        return (
            f"found an API server {printable(server)} and kubelet {new}; wanted a control plane "
            f"that is not older; {cure}"
        )
    return ""


def _follows(old: str, new: str) -> bool:
    before, after = numbers(old), numbers(new)
    return after >= before and after[1] - before[1] <= 1


def _skips(what: str, old: str, new: str) -> str:
    return (
        f"found {what} {printable(old)} → {new}; wanted one minor version forward at a time; "
        "declare the next one first"
    )
