"""What a join is lent comes from a member that answers, and is taken back from that member."""

from __future__ import annotations

import asyncio
from typing import Any

import pulumi
import pytest

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.hosts.kubeadm.lending import ASK, LENT, MEMBERSHIP, RETURN, TAKE, Lending, Lent
from gpu_cluster.ssh.answers import NOTHING
from tests.fixtures.clusters import HOST_KEY, cluster

TOKEN, KEY = "abcdef.0123456789abcdef", "2" * 64
HASHES = (f"sha256:{'1' * 64}",)


class Hosts(Lending):
    """Lending whose hosts answer from a table; it records what they were asked."""

    def __init__(self, **answers: str) -> None:
        hosts = [
            {
                "name": f"cp-{n}",
                "role": "control-plane",
                "address": f"192.0.2.{n}",
                "hostKey": HOST_KEY,
            }
            for n in (1, 2, 3)
        ]
        gpu = {"name": "gpu-1", "address": "192.0.2.11", "hostKey": HOST_KEY}
        init = {"endpoint": "192.0.2.9:6443", "network": {"manifest": "cni.yaml"}}
        declared = cluster(
            pools=[{"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8}],
            hosts=[*hosts, gpu],
            kubernetesPackages={"version": "1.34.4", "init": init},
        )
        kubeadm = resolve(declared, "dev").kubeadm
        assert kubeadm is not None
        super().__init__("test", kubeadm, "key")
        self.hosts = {host.name: host for host in (kubeadm.first, *kubeadm.members)}
        self.answers = {"cp_1": "member", "cp_2": "member", "cp_3": "none"} | answers
        self.asked: list[str] = []
        self.written: dict[str, str] = {}

    async def _ask(self, host: DesiredHost, script: str, channel: Any, limit: int = 0) -> Any:
        answer = self.answers[host.name.replace("-", "_")]
        if answer == "down":
            raise pulumi.RunError(f"host {host.name}: no login")
        if channel is MEMBERSHIP:
            assert script == ASK
            return answer
        if channel is NOTHING:
            if script == RETURN:
                self.asked.append(f"{host.name} forgets")
            else:
                assert script.startswith(TAKE)
                self.written[host.name] = script
            return None
        assert channel is LENT
        lends = "GC_JOINING=" in script
        self.asked.append(f"{host.name} {'lends' if lends else 'takes back'}")
        return Lent(TOKEN, HASHES, KEY) if lends else None

    def join(self, name: str) -> None:
        asyncio.run(self._lend(self.hosts[name]))

    def end(self, name: str) -> None:
        asyncio.run(self._take_back(self.hosts[name]))


def test_the_first_member_lends_and_gets_it_back() -> None:
    hosts = Hosts()
    hosts.join("cp-3")
    document = hosts.written["cp-3"]
    assert TOKEN in document
    assert f'"certificateKey": "{KEY}"' in document
    hosts.end("cp-3")
    assert hosts.asked == ["cp-1 lends", "cp-3 forgets", "cp-1 takes back"]


def test_another_member_lends_while_the_first_is_down() -> None:
    hosts = Hosts(cp_1="down")
    hosts.join("cp-3")
    hosts.end("cp-3")
    assert hosts.asked == ["cp-2 lends", "cp-3 forgets", "cp-2 takes back"]


@pytest.mark.parametrize("answer", ["member", "other"])
def test_a_host_that_does_not_join_is_lent_nothing(answer: str) -> None:
    hosts = Hosts(cp_3=answer)
    hosts.join("cp-3")
    hosts.end("cp-3")
    assert hosts.asked == []
    assert hosts.written == {}


def test_without_a_member_that_answers_a_join_fails_and_names_why() -> None:
    hosts = Hosts(cp_1="down", cp_2="none")
    with pytest.raises(pulumi.RunError, match=r"cp-1: no login\n.*no control-plane host that lets"):
        hosts.join("cp-3")


def test_nothing_of_what_is_lent_is_shown() -> None:
    lent = Lent(TOKEN, HASHES, KEY)
    assert TOKEN not in repr(lent)
    assert KEY not in repr(lent)
