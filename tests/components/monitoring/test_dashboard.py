"""The Grafana dashboard: a uid per stack, variables, readable with many GPUs.

The real promtool checks its expressions (tests/proofs/platform/test_monitoring.py).
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from gpu_cluster.desired.resolve import Desired, resolve
from gpu_cluster.loading.loader import load
from gpu_cluster.monitoring.dashboard import LONGEST_UID, dashboard, uid
from gpu_cluster.monitoring.values import COUNTERS
from gpu_cluster.platforms.gpu_manager import values as gpu_manager
from tests.proofs.platform import ways

Json = dict[str, Any]
CHOSEN = {"${pool:raw}": "gpu-1|gpu-2", "$node": "gpu-1", "$namespace": "team-a"}
ONE_VALUE = re.compile(r"(?:100 \* )?(?:avg|count|sum|topk)(?: by \([\w, ]+\) | ?)\(")
"""Beginning of an expression that gives one value, one for each node or pod, or the ten highest."""


def desired(way: str, stack: str = "x", **more: Any) -> Desired:
    return resolve(load(ways.declared("x", way, monitoring={}, **more)), stack)


def made(way: str = "device-plugin", stack: str = "x", **more: Any) -> Json:
    found = desired(way, stack, **more)
    assert found.monitoring is not None
    return dict(json.loads(dashboard(found.monitoring, found.platform.monitored)))


def expressions(document: Json) -> list[str]:
    """Return the PromQL expressions of all panels, with a value for each variable."""
    found = [target["expr"] for panel in document["panels"] for target in panel["targets"]]
    for name, value in CHOSEN.items():
        found = [each.replace(name, value) for each in found]
    return found


@pytest.mark.parametrize("way", ways.WAYS)
def test_the_dashboard_asks_only_for_what_is_collected(way: str) -> None:
    collected = {name for name, _, _ in COUNTERS} | set(gpu_manager.METRICS)
    collected |= {"kube_node_status_allocatable"}
    texts = expressions(made(way))
    assert not [text for text in texts if "$" in text]
    for text in texts:
        assert {*re.findall(r"(\w+){", text)} <= collected, text
    if way == "gpu-manager":
        assert all(name in str(texts) for name in gpu_manager.METRICS)


def test_the_dashboards_of_two_stacks_do_not_replace_each_other() -> None:
    stacks = ("dev", "prod", "a" * 60, "a" * 61, "a.b", "a-b")
    uids = {made(stack=stack)["uid"] for stack in stacks}
    assert uids == {uid(stack) for stack in stacks}
    assert len(uids) == len(stacks)
    assert all(re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{LONGEST_UID}}}", each) for each in uids)


@pytest.mark.promise("No panel of the dashboard shows a line per GPU, however many there are.")
@pytest.mark.parametrize("way", ways.WAYS)
def test_a_panel_shows_nodes_or_counts_or_the_highest_values(way: str) -> None:
    for text in expressions(made(way)):
        assert ONE_VALUE.match(text), text


def test_each_variable_filters_every_panel_of_the_gpus() -> None:
    document = made()
    names = [each["name"] for each in document["templating"]["list"]]
    assert names == ["datasource", "pool", "node", "namespace"]
    for panel in document["panels"]:
        for target in panel["targets"]:
            of_node = "kube_node" in target["expr"]
            for name in ("${pool:raw}", "$node", *(() if of_node else ("$namespace",))):
                assert name in target["expr"]


def test_a_pool_is_the_pattern_of_its_nodes() -> None:
    pools = [{"name": "a", "nodes": ["gpu-[1-2]", "n.example.com"], "gpusPerNode": 8}]
    pool = made(pools=pools)["templating"]["list"][1]
    assert pool["query"] == r"a : gpu-1|gpu-2|n\\.example\\.com"
    assert pool["allValue"] == ".*"


def test_panels_do_not_overlap_and_limits_have_a_color() -> None:
    document = made(way="gpu-manager")
    cells = [
        (x, y)
        for panel in document["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    hot = [panel for panel in document["panels"] if "hottest" in panel["title"]]
    steps = hot[0]["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [step["value"] for step in steps] == [None, 85]


def test_the_holders_of_gpus_are_a_table() -> None:
    (panel,) = [each for each in made()["panels"] if each["type"] == "table"]
    assert [target["format"] for target in panel["targets"]] == ["table", "table"]
    assert all("namespace, pod, Hostname" in target["expr"] for target in panel["targets"])
