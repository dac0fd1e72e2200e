"""A host that the stack file no longer declares is undone only where nothing depends on it.

The engine undoes it after everything else, the validation included.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.change.document import ClusterChange
from tests.components.change.world import World, base, pod

Json = dict[str, Any]


def without(*hosts: str) -> Json:
    """Return the stack file without some hosts."""
    document = base()
    document["hosts"] = [host for host in document["hosts"] if host["name"] not in hosts]
    return document


def change(document: Json, *pods: Json, before: Json | None = None) -> ClusterChange:
    world = World.of(before or base())
    world.pods.extend(pods)
    return world.change(document)


def faults(document: Json, *pods: Json, before: Json | None = None) -> list[str]:
    return [fault.text for fault in change(document, *pods, before=before).faults]


def test_an_unchanged_stack_removes_no_host() -> None:
    found = change(base())
    assert (found.faults, found.changes) == ((), ())


def test_a_section_hosts_taken_out_while_its_nodes_keep_their_gpus_is_refused() -> None:
    (fault,) = faults(without("gpu-1", "gpu-2"))
    assert fault.startswith(
        "host gpu-[1-2]: found a host that is no longer declared, while its node stays in pool "
        "a100 with "
        "8 GPUs each"
    )
    assert "gpu-cluster leave --hosts gpu-[1-2]" in fault


def test_one_host_taken_out_while_its_node_stays_is_refused() -> None:
    (fault,) = faults(without("gpu-2"))
    assert fault.startswith("host gpu-2: ")


@pytest.mark.parametrize("gpus", [8, 0])
def test_a_removed_pool_whose_nodes_stay_in_another_needs_its_hosts_for_gpus(gpus: int) -> None:
    before = base()
    before["pools"] = [
        {"name": "a100", "nodes": ["gpu-[2-4]"], "gpusPerNode": 8},
        {"name": "old", "nodes": ["gpu-1"], "gpusPerNode": 8},
    ]
    after = without("gpu-1")
    after["pools"] = [before["pools"][0], {"name": "new", "nodes": ["gpu-1"], "gpusPerNode": gpus}]
    found = faults(after, before=before)
    assert len(found) == bool(gpus)
    assert all("stays in pool new with 8 GPUs each" in fault for fault in found)


def test_a_node_in_maintenance_counts_as_one_of_its_pool() -> None:
    document = without("gpu-2")
    document["maintenance"] = ["gpu-2"]
    (fault,) = faults(document)
    assert "stays in pool a100" in fault


def test_a_host_that_goes_with_its_node_is_a_change() -> None:
    document = without("gpu-2")
    document["pools"][0]["nodes"] = ["gpu-1", "gpu-[3-4]"]
    found = change(document)
    assert found.faults == ()
    (undone,) = [each for each in found.changes if each.subject == "host"]
    assert (undone.names, undone.what, undone.was) == (("gpu-2",), "preparation", "applied")
    assert (found.gpus.before, found.gpus.after) == (32, 24)
    drop_in = "/etc/containerd/conf.d/99-nvidia.toml"
    assert [each.names for each in found.files if each.what == drop_in] == [("gpu-2",)]


def test_a_host_that_goes_while_pods_run_on_its_node_is_refused() -> None:
    document = without("gpu-2")
    document["pools"][0]["nodes"] = ["gpu-1", "gpu-[3-4]"]
    (fault,) = faults(document, pod("train-0", "gpu-2", 8), pod("web", "gpu-3"))
    assert "pods run on its node gpu-2: team-a/train-0;" in fault
    assert "kubectl --context gpu-cluster-dev drain gpu-2" in fault


def test_a_host_with_another_name_for_the_same_node_is_refused() -> None:
    document = base()
    document["hosts"][1] |= {"name": "rack-2", "node": "gpu-2"}
    (fault,) = faults(document)
    assert "while host rack-2 is declared for its node gpu-2" in fault


CRIO = {**base(), "runtime": {"engine": "cri-o"}}


def with_crio() -> World:
    """Return a world with containerd configured, on hosts that have CRI-O, too."""
    world = World.of(base())
    world.hosts = {name: replace(facts, crio="1.34.2") for name, facts in world.hosts.items()}
    return world


def test_another_engine_is_refused_while_pods_run_on_a_node() -> None:
    world = with_crio()
    world.pods.append(pod("web", "gpu-2"))
    (fault,) = (each.text for each in world.change(CRIO).faults)
    assert fault.startswith(
        "host gpu-2: found containerd, to be replaced by cri-o while pods run on its node gpu-2: "
        "team-a/web"
    )


def test_the_gpus_of_a_drained_node_are_gone_while_its_engine_is_replaced() -> None:
    found = with_crio().change(CRIO)
    assert found.faults == ()
    (gap,) = found.gaps
    assert (gap.why, gap.nodes, gap.gpus, gap.at_most) == (
        "containerd is replaced by cri-o",
        ("gpu-1", "gpu-2"),
        16,
        16,
    )
