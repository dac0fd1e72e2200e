"""Unit tests: one of several control planes is changed only while all of them run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.nodes.control_planes import members_down, require_members, wait_members

Json = dict[str, Any]
THREE = {
    f"{component}-cp-{n}": "True" for component in ("etcd", "kube-apiserver") for n in (1, 2, 3)
}


class Server:
    """Fake API server that lists pods, one list after the other, the last again and again."""

    def __init__(self, *lists: dict[str, str]) -> None:
        self.lists = list(lists)

    async def list(self, path: str, **query: str) -> list[Json]:
        assert path == "namespaces/kube-system/pods"
        assert "tier=control-plane" in query["labelSelector"]
        pods = self.lists[0] if len(self.lists) == 1 else self.lists.pop(0)
        return [
            {
                "metadata": {"name": name, "labels": {"component": name.rsplit("-cp-")[0]}},
                "spec": {"nodeName": f"cp-{name[-1]}"},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            }
            for name, ready in pods.items()
        ]


def down(pods: dict[str, str]) -> tuple[str, ...]:
    return asyncio.run(members_down(Server(pods)))  # type: ignore[arg-type]


def test_each_member_that_is_not_ready_is_down() -> None:
    assert down(THREE) == ()
    assert down({**THREE, "etcd-cp-2": "False"}) == ("etcd-cp-2",)
    assert down({**THREE, "kube-apiserver-cp-3": "Unknown"}) == ("kube-apiserver-cp-3",)


@pytest.mark.parametrize("pods", [{}, {"etcd-cp-1": "False", "kube-apiserver-cp-1": "False"}])
def test_a_single_control_plane_may_be_changed(pods: dict[str, str]) -> None:
    assert down(pods) == ()


def test_a_member_is_not_changed_while_another_is_down() -> None:
    server = Server({**THREE, "etcd-cp-2": "False"})
    with pytest.raises(ClusterError, match=r"node cp-1: found pods .*etcd-cp-2.*not touched"):
        asyncio.run(require_members(server, "cp-1"))  # type: ignore[arg-type]
    asyncio.run(require_members(Server(THREE), "cp-1"))  # type: ignore[arg-type]


def test_a_member_that_is_down_itself_may_be_mended() -> None:
    server = Server({**THREE, "etcd-cp-2": "False"})
    asyncio.run(require_members(server, "cp-2"))  # type: ignore[arg-type]


def test_a_changed_member_is_waited_for() -> None:
    server = Server({**THREE, "etcd-cp-1": "False"}, THREE)
    asyncio.run(wait_members(server, "cp-1", 30))  # type: ignore[arg-type]
    with pytest.raises(ClusterError, match=r"isn't ready|aren't ready 0 s after"):
        asyncio.run(wait_members(Server({**THREE, "etcd-cp-1": "False"}), "cp-1", 0))  # type: ignore[arg-type]
