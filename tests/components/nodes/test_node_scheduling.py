"""Labels and taints that a pool's Command removes and overwrites on nodes of several pools.

The API client is a fake. Like the API server, it refuses a server-side apply of another manager's
value, and applies JSON patches of taints (kubernetes v1.36, server-side apply, "Conflicts").
tests/proofs/platform/test_scheduling.py proves the same on a real API server.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gpu_cluster.desired.pool import PoolScheduling
from gpu_cluster.findings import Aspect, Finding, Findings, Kind, Subject
from gpu_cluster.kubernetes.api import ClusterError, Refused
from gpu_cluster.nodes import node_scheduling
from gpu_cluster.nodes.component import gaining
from gpu_cluster.nodes.taints import RECORD

Json = dict[str, Any]
TAINT: Json = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
OWN: Json = {"key": "example.com/own", "value": "x", "effect": "NoSchedule"}
LABELS = {"nvidia.com/gpu": "true"}


def pool(name: str, *taints: Json, **labels: str) -> PoolScheduling:
    return PoolScheduling(
        context="c",
        pool=name,
        nodes=("gpu-1",),
        manager=f"gpu-cluster-dev-{name}",
        labels={**LABELS, **labels},
        taints=taints,
        stack="dev",
        gpus=8,
    )


@dataclass
class Fake:
    """A fake API server with one node, for the requests of `node_scheduling`."""

    node: Json
    forced: list[str] = field(default_factory=list)

    async def request(self, method: str, url: str, **options: Any) -> Json:
        assert url == "nodes/gpu-1"
        body, parameters = options.get("body"), options.get("params", {})
        if isinstance(body, list):
            taints = next((each for each in body if each["path"] == "/spec/taints"), None)
            self.node["spec"]["taints"] = taints.get("value", []) if taints else []
        elif body is not None:
            self._apply(body["metadata"], parameters["fieldManager"], parameters["force"])
        return copy.deepcopy(self.node)

    def _drop(self, owned: Json, metadata: Json) -> None:
        """Remove the fields that a manager no longer applies and that no other manager owns."""
        entries = self.node["metadata"]["managedFields"]
        others = [each["fieldsV1"]["f:metadata"] for each in entries]
        for part, keys in owned.items():
            for key in keys:
                name = key.removeprefix("f:")
                kept = name in metadata.get(part.removeprefix("f:"), {})
                if not kept and not any(key in other.get(part, {}) for other in others):
                    del self.node["metadata"][part.removeprefix("f:")][name]

    async def pages(self, url: str) -> AsyncIterator[list[Json]]:
        assert url == "nodes"
        yield [copy.deepcopy(self.node)]

    def _apply(self, metadata: Json, manager: str, force: str) -> None:
        fields = self.node["metadata"]["managedFields"]
        for part in ("labels", "annotations"):
            present = self.node["metadata"].setdefault(part, {})
            for key, value in metadata.get(part, {}).items():
                for entry in fields:
                    owned = entry["fieldsV1"]["f:metadata"].get(f"f:{part}", {})
                    if entry["manager"] == manager or f"f:{key}" not in owned:
                        continue
                    if present.get(key) != value and force != "true":
                        raise Refused("PATCH", 409, "Conflict", f"conflict with {entry['manager']}")
                    if present.get(key) != value:
                        del owned[f"f:{key}"]
                        self.forced.append(entry["manager"])
        former = [each for each in fields if each["manager"] == manager]
        fields[:] = [each for each in fields if each["manager"] != manager]
        for entry in former:
            self._drop(entry["fieldsV1"]["f:metadata"], metadata)
        for part in ("labels", "annotations"):
            self.node["metadata"][part] |= metadata.get(part, {})
        owned = {f"f:{p}": {f"f:{k}": {} for k in metadata.get(p, {})} for p in metadata}
        if any(owned.values()):
            entry = {"manager": manager, "operation": "Apply", "fieldsV1": {"f:metadata": owned}}
            fields.append(entry)


def node() -> Json:
    meta: Json = {"name": "gpu-1", "uid": "u", "resourceVersion": "1", "managedFields": []}
    return {"metadata": meta, "spec": {}, "status": {}}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    made = Fake(node())

    @asynccontextmanager
    async def connect(_: str) -> AsyncIterator[Fake]:
        yield made

    monkeypatch.setattr(node_scheduling, "connect", connect)
    return made


def apply(wanted: PoolScheduling) -> Json:
    return asyncio.run(node_scheduling.apply(wanted))


def release(wanted: PoolScheduling) -> Json:
    return asyncio.run(node_scheduling.release(wanted))


def test_a_renamed_pool_keeps_labels_and_taints_when_the_former_name_is_released(
    fake: Fake,
) -> None:
    apply(pool("a100", TAINT))
    labels, spec = dict(fake.node["metadata"]["labels"]), copy.deepcopy(fake.node["spec"])
    assert spec == {"taints": [TAINT]}
    apply(pool("h100", TAINT))
    assert release(pool("a100", TAINT)) == {"released": 1}
    assert (fake.node["metadata"]["labels"], fake.node["spec"]) == (labels, spec)
    assert fake.forced == []
    release(pool("h100", TAINT))
    assert fake.node["spec"]["taints"] == []


def test_a_node_that_moves_to_another_pool_gets_its_labels_and_taints_at_the_first_run(
    fake: Fake,
) -> None:
    apply(pool("l4", TAINT, OWN, tier="infer"))
    apply(pool("a100", TAINT, tier="train"))
    left = replace(pool("l4", TAINT, OWN, tier="infer"), nodes=())
    assert apply(left)["released"] == 1
    assert fake.node["metadata"]["labels"]["tier"] == "train"
    assert fake.node["spec"]["taints"] == [TAINT]
    assert json.loads(fake.node["metadata"]["annotations"][RECORD]) == [TAINT]
    assert set(fake.forced) == {"gpu-cluster-dev-l4"}


def test_a_label_of_somebody_else_is_never_overwritten(fake: Fake) -> None:
    theirs = {"f:metadata": {"f:labels": {"f:tier": {}}}}
    entry = {"manager": "somebody", "operation": "Apply", "fieldsV1": theirs}
    fake.node["metadata"] |= {"labels": {"tier": "theirs"}, "managedFields": [entry]}
    apply(pool("l4", TAINT))
    with pytest.raises(ClusterError, match="labels that no other program manages"):
        apply(pool("a100", TAINT, tier="train"))
    assert fake.node["metadata"]["labels"]["tier"] == "theirs"
    assert fake.forced == []


def test_a_pool_of_another_stack_is_somebody_else(fake: Fake) -> None:
    other = replace(pool("l4", tier="infer"), stack="prod", manager="gpu-cluster-prod-l4")
    apply(other)
    with pytest.raises(ClusterError, match="labels that no other program manages"):
        apply(pool("a100", tier="train"))


def moved(was: str = "", now: str = "", node: str = "gpu-1") -> Finding:
    return Finding(
        kind=Kind.CHANGE, subject=Subject.NODE, name=node, aspect=Aspect.POOL, was=was, now=now
    )


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ({"l4": (moved(was="l4"),), "a100": (moved(now="a100"),)}, {"l4": {"a100"}}),
        ({"l4": (moved(was="l4"),)}, {}),
        ({"a100": (moved(now="a100"),)}, {}),
        (
            {
                "l4": (moved(was="l4"), moved(now="l4", node="gpu-2")),
                "a100": (moved(now="a100"), moved(was="a100", node="gpu-2")),
            },
            {},
        ),
    ],
)
def test_a_pool_that_gets_a_node_comes_before_the_one_that_loses_it(
    findings: dict[str, Findings], expected: dict[str, set[str]]
) -> None:
    assert gaining(findings) == expected
