"""Unit tests of the plan for MIG layouts: affected nodes, names of layouts, preview text."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpu_cluster.desired.parts import Part
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.rollout import DesiredMigLayouts
from gpu_cluster.findings import Finding
from gpu_cluster.inspection.judgement import Seen, judged
from gpu_cluster.inspection.observed_cluster import ClusterSeen
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes.inspect import CORDONED
from gpu_cluster.platforms.gpu_operator import mig_config
from gpu_cluster.rollout.mig_layouts_component import MigLayoutsArgs
from gpu_cluster.rollout.mig_layouts_plan import MigLayoutsPlan, blockers, words
from gpu_cluster.rollout.mig_targets import MARK, differences, kept
from gpu_cluster.rollout.plan import View
from gpu_cluster.settings.cluster import Cluster
from tests.findings import found as finding
from tests.fixtures.documents import stack_document
from tests.resolved import platform_of

Json = dict[str, Any]
LABEL, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"


def declared(mig: Json | None = None, platform: str = "gpu-operator", **sections: Any) -> Cluster:
    pool = {"name": "a100", "nodes": ["gpu-[1-2]"], "gpusPerNode": 8}
    return load(
        stack_document(platform=platform, pools=[{**pool, "mig": mig} if mig else pool]) | sections
    )


def layout(cluster: Cluster) -> str:
    return mig_config.layout(cluster.pools[0])


def node(name: str, held: bool = False, mark: str = "", **labels: str) -> Json:
    keys = {"layout": LABEL, "state": STATE}
    manager = {"manager": "gpu-cluster-t.layouts", "operation": "Apply"}
    return {
        "metadata": {
            "name": name,
            "labels": {keys[key]: value for key, value in labels.items()},
            "annotations": {CORDONED: mark} if mark else {},
            "managedFields": [manager] if held else [],
        }
    }


def test_a_layout_s_name_changes_with_its_content_alone() -> None:
    mixed = {"gpuOperator": {"migStrategy": "mixed"}}
    first = declared({"1g.5gb": 2, "2g.10gb": 2}, **mixed)
    assert layout(first) == layout(declared({"2g.10gb": 2, "1g.5gb": 2}, **mixed))
    assert layout(first) != layout(declared({"1g.5gb": 2, "2g.10gb": 1}, **mixed))
    assert re.fullmatch(r"2x1g\.5gb-2x2g\.10gb-[0-9a-f]{8}", layout(first))
    renamed = first.pools[0].model_copy(update={"name": "h100"})
    assert mig_config.layout(renamed) == layout(first)
    served = platform_of(first).values()["migManager"]["config"]["data"]["config.yaml"]
    assert layout(first) in served
    assert LABEL not in resolve(first, "t").scheduling.pools[0].labels


def test_a_built_in_layout_goes_in_waves_too() -> None:
    pool = {"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": 8}
    cluster = declared(pools=[{**pool, "labels": {LABEL: "all-balanced"}}])
    assert layout(cluster) == "all-balanced"
    assert LABEL not in resolve(cluster, "t").scheduling.pools[0].labels


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (node("gpu-1"), "MIG layout none → {}"),
        (node("gpu-1", layout="all-disabled"), "MIG layout all-disabled → {}"),
        (node("gpu-1", layout="{}", state="failed"), "MIG layout {} failed"),
        (node("gpu-1", layout="{}", state="success", mark=MARK),
         "MIG layout {}: an earlier run did not end"),
        (node("gpu-1", layout="{}", state="success"), ""),
        (node("gpu-1", layout="{}", state="success", mark="rollout"), ""),
    ],
)  # fmt: skip
def test_what_is_done_on_a_node(found: Json, what: str) -> None:
    cluster = declared({"1g.5gb": 7})
    name = layout(cluster)
    meta = found["metadata"]
    meta["labels"] = {key: value.format(name) for key, value in meta["labels"].items()}
    good = node("gpu-2", layout=name, state="success")
    wanted = {"gpu-1": what.format(name)} if what else {}
    assert texts([found, good], resolve(cluster, "t").layouts) == wanted


def test_a_node_that_lost_its_layout_s_declaration_gets_whole_gpus_unless_in_maintenance() -> None:
    nodes = [
        node("gpu-1", held=True, layout="a100-1", state="success"),
        node("gpu-2", layout="by-hand", state="success"),  # Set by a person.
    ]
    cluster = declared()
    assert texts(nodes, resolve(cluster, "t").layouts) == {
        "gpu-1": "MIG layout a100-1 → all-disabled"
    }
    resting = declared(maintenance=["gpu-1"])
    assert differences(nodes, resolve(resting, "t").layouts) == {}
    assert differences(nodes, resolve(declared(platform="device-plugin"), "other").layouts) == {}


def changing(name: str) -> Finding:
    """Return the finding about a node that needs another layout."""
    return finding(f"change: node {name}: MIG layout", was="a", now="b")


def texts(nodes: list[Json], layouts: DesiredMigLayouts) -> dict[str, str]:
    """Return the planned change of each node as text."""
    return {name: each.text for name, each in differences(nodes, layouts).items()}


def test_only_stacks_with_layouts_have_the_command() -> None:
    def needed(cluster: Cluster, **plan: Any) -> bool:
        desired = resolve(cluster, "t")
        return MigLayoutsArgs(
            rollout=desired.rollout,
            layouts=desired.layouts,
            pools=desired.validation.pools,
            private_key="",
            has_hosts=False,
            plan=MigLayoutsPlan(**plan),
        ).needed

    assert needed(declared({"1g.5gb": 7}))
    assert not needed(declared())
    assert needed(declared(), changes={"gpu-1": changing("gpu-1")})


def test_the_preview_names_nodes_their_evictions_and_what_blocks() -> None:
    changes = {f"gpu-{i}": changing(f"gpu-{i}") for i in range(1, 5)}
    views = {
        "gpu-1": View(evicts={"team-a/Deployment web": 3}, lost="pods that lose it"),
        "gpu-2": View(evicts={"team-b/Job j": 1}, begun=True, budgets=("team-b/j",)),
        "gpu-3": View(),
        "gpu-4": View(left="cordoned, not by this program"),
    }
    plan = MigLayoutsPlan(changes, views, at_once=2)
    assert list(words(plan)) == [
        "node gpu-4 left alone: cordoned, not by this program",
        "MIG layout of 3 nodes: 1 without pods, 2 in waves, 4 pods evicted",
        "without pods, MIG layout a → b: gpu-3",
        "wave 1: gpu-2",
        "wave 2: gpu-1",
        "node gpu-2: MIG layout a → b",
        "node gpu-2: evicts 1 of team-b/Job j",
        "node gpu-2: waits while PodDisruptionBudgets allow no disruption: team-b/j",
        "node gpu-1: MIG layout a → b",
        "node gpu-1: evicts 3 of team-a/Deployment web",
    ]
    assert ["node gpu-1: found pods that lose it" in line for line in blockers(plan)] == [True]


def test_a_platform_without_mig_manager_leaves_the_layouts_of_an_earlier_one() -> None:
    """No run could disable MIG there, so a difference would stay forever."""
    nodes = [
        node("gpu-1", held=True, layout="all-1g.5gb"),
        node("gpu-2", held=True, layout="all-disabled"),
        node("gpu-3", layout="all-1g.5gb"),
    ]
    plugin = resolve(declared(platform="device-plugin"), "t").layouts
    assert differences(nodes, plugin) == {}
    assert kept(nodes, plugin) == {"gpu-1": "all-1g.5gb"}
    operator = resolve(declared(), "t").layouts
    assert differences(nodes, operator).keys() == {"gpu-1", "gpu-2"}
    assert kept(nodes, operator) == {}


def test_layouts_that_stay_are_warned_of_once_for_all_nodes() -> None:
    seen = ClusterSeen(kept_layouts=dict.fromkeys(("gpu-1", "gpu-2"), "all-1g.5gb"))
    desired = resolve(declared(platform="device-plugin"), "t")
    (warning,) = judged(desired, Seen(cluster=seen)).warnings
    assert warning.startswith("nodes gpu-[1-2]: found MIG layout all-1g.5gb, which an earlier")
    assert judged(desired.narrowed({Part.HOSTS}), Seen(cluster=seen)).warnings == ()
