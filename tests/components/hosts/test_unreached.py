"""Hosts that gave no answer: a run that would change them is refused before it changes anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
import pytest

from gpu_cluster.change.document import ClusterChange
from gpu_cluster.change.file import Inspected
from gpu_cluster.cluster import GpuCluster, GpuClusterArgs
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.difference import HostDifference
from gpu_cluster.hosts.recorded import RESOURCES
from gpu_cluster.inspection.difference import Difference
from gpu_cluster.settings.cluster import Cluster
from tests.fixtures.clusters import cluster
from tests.mocks import Recorder, declare, inspected

pytestmark = pytest.mark.usefixtures("no_hooks")

KEY = "private"
SILENT = HostFacts(error="no answer", cure="start it")
CHANGED: Mapping[str, Mapping[str, Any]] = {
    "a kernel parameter": {"system": {"sysctl": {"vm.max_map_count": "262144"}}},
    "another user": {"ssh": {"user": "ops"}},
    "the time of its commands": {"ssh": {"commandTimeoutSeconds": 601}},
    "the runtime": {"runtime": {"devicesByEnvironment": True}},
}


class State(Recorder):
    """Mocks of an engine whose state has the resources of an earlier run."""

    def __init__(self, earlier: Recorder) -> None:
        """Keep the resources of the earlier run."""
        super().__init__()
        self.earlier = earlier

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[str, Any]:
        if args.token != RESOURCES:
            return {"outputs": {"gpus": 8} if self.earlier.resources else {}}
        return {
            "outputs": {
                f"urn:pulumi:test::gpu-cluster::a$b${each.token}::{each.name}": {
                    "outputs": plain(each.inputs)
                }
                for each in self.earlier.resources
            }
        }


def plain(value: Any) -> Any:
    """Return inputs as the engine keeps them: secrets unwrapped, numbers as floating point."""
    if isinstance(value, dict):
        if "4dabf18193072939515e22adb298388d" in value:
            return plain(value["value"])
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def run(
    declared: Cluster, unreached: Mapping[str, HostFacts], recorder: Recorder | None = None
) -> Recorder:
    def program() -> None:
        GpuCluster("gpu-cluster", GpuClusterArgs(settings=declared, private_key=KEY))

    difference = Difference(hosts=HostDifference(unreached=unreached))
    with inspected(difference, ClusterChange(name="gpu-cluster")):
        return declare(program, preview=False, recorder=recorder)


@pytest.fixture(scope="module")
def applied() -> Recorder:
    with pytest.MonkeyPatch.context() as patch:
        none = pulumi.ResourceHookBinding()
        patch.setattr("gpu_cluster.hooks.binding", lambda *_, **__: none)
        patch.setattr("gpu_cluster.hooks.around", lambda *_, **__: none)
        return run(cluster(), {})


def test_a_silent_host_that_stays_as_it_is_stops_no_run(applied: Recorder) -> None:
    names = [host.name for host in cluster().hosts]
    again = State(applied)
    run(cluster(), dict.fromkeys(names, SILENT), again)
    assert len(again.resources) == len(applied.resources)


@pytest.mark.promise(
    "A run that would change a host that gives no answer changes no other host before it fails."
)
@pytest.mark.parametrize("name", CHANGED)
def test_a_silent_host_that_would_change_stops_the_run_before_anything(
    applied: Recorder, name: str
) -> None:
    changed = State(applied)
    with pytest.raises(Inspected, match="host gpu-1: found no answer; wanted: a login that"):
        run(cluster(**CHANGED[name]), {"gpu-1": SILENT}, changed)
    assert changed.resources == []


def test_a_silent_host_that_was_never_prepared_stops_the_run() -> None:
    first = State(Recorder())
    with pytest.raises(Inspected, match="host gpu-1: found no answer"):
        run(cluster(), {"gpu-1": SILENT}, first)
    assert first.resources == []
