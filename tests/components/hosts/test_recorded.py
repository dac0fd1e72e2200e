"""The hosts that the state records are those with a Command of this cluster's preparation."""

from __future__ import annotations

from typing import Any

import pulumi

from gpu_cluster.hosts import recorded
from gpu_cluster.hosts.prepared import COMMAND, preparation_of, prepared_hosts
from gpu_cluster.hosts.recorded import known_names
from tests.mocks import Recorder, declare

OTHERS = ("a-container-runtime-gpu-3", "b-host-preparation-gpu-4", "a-rollout")


class State(Recorder):
    """Recorder with a Pulumi state; a stack without outputs has no state."""

    def __init__(self, outputs: dict[str, Any]) -> None:
        super().__init__()
        self.outputs = outputs

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[str, Any]:
        if args.token == recorded.OUTPUTS:
            assert str(args.args["name"]).endswith("/gpu-cluster/test")
            return {"outputs": self.outputs}
        assert self.outputs, "the engine crashes on a stack that no run has changed"
        assert args.token == recorded.RESOURCES
        names = [f"{preparation_of('a')}-{host}" for host in ("gpu-2", "gpu-1")]
        start = "urn:pulumi:test::gpu-cluster::gpucluster:index:HostPreparation$"
        urns = [f"{start}{COMMAND}::{name}" for name in (*names, *OTHERS)]
        return {"outputs": {urn: {"type": COMMAND, "outputs": {}} for urn in urns}}


def hosts_of(cluster: str, outputs: dict[str, Any]) -> tuple[str, ...]:
    found: list[frozenset[str] | None] = []
    declare(lambda: found.append(known_names()), preview=True, recorder=State(outputs))
    return prepared_hosts(cluster, found[0] or ())


def test_the_hosts_of_a_cluster_are_those_that_it_prepared() -> None:
    outputs = {"gpus": {"declared": 32}}
    assert hosts_of("a", outputs) == ("gpu-1", "gpu-2")
    assert hosts_of("b", outputs) == ("gpu-4",)
    assert hosts_of("c", outputs) == ()


def test_the_state_of_a_stack_that_no_run_has_changed_is_not_read() -> None:
    assert hosts_of("a", {}) == ()
