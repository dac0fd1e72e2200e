"""Labels and taints that a pool's Command removes and overwrites on nodes of several pools.

The API client is a fake. Like the API server, it refuses a server-side apply of another manager's
value, and applies JSON patches of taints (kubernetes v1.36, server-side apply, "Conflicts").
tests/proofs/platform/test_scheduling.py proves the same on a real API server.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gpu_cluster.desired.pool import PoolScheduling, PoolsScheduling
from gpu_cluster.kubernetes.api import ClusterError, Refused
from gpu_cluster.nodes import node_scheduling, startup_taint
from gpu_cluster.nodes.taints import RECORD
from gpu_cluster.release import inspect
from gpu_cluster.requests import PREVIOUS, read, write

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
    labels: list[dict[str, str]] = field(default_factory=list)
    """Labels of the node after each server-side apply."""

    async def request(self, method: str, url: str, **options: Any) -> Json:
        assert url == "nodes/gpu-1"
        body, parameters = options.get("body"), options.get("params", {})
        if isinstance(body, list):
            (taints,) = (each for each in body if each["path"] == "/spec/taints")
            self.node["spec"]["taints"] = taints.get("value", [])
        elif body is not None:
            self._apply(body["metadata"], parameters["fieldManager"], parameters["force"])
            self.labels.append(dict(self.node["metadata"]["labels"]))
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

    async def pages(self, url: str, **_: str) -> AsyncIterator[list[Json]]:
        assert url in ("nodes", "pods")
        yield [copy.deepcopy(self.node)] if url == "nodes" else []

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


def apply(wanted: PoolScheduling | PoolsScheduling) -> Json:
    return asyncio.run(node_scheduling.apply(wanted))


def release(wanted: PoolScheduling | PoolsScheduling) -> Json:
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
    theirs: Json = {"f:metadata": {"f:labels": {"f:tier": {}}}}
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


def together(*pools: PoolScheduling) -> PoolsScheduling:
    made = tuple(replace(each, together=True) for each in pools)
    return PoolsScheduling(context="c", pools=made)


def test_a_node_that_moves_is_never_without_the_labels_that_both_pools_have(fake: Fake) -> None:
    first, second = pool("l4", TAINT, tier="infer"), pool("a100", TAINT, tier="train")
    apply(together(first, replace(second, nodes=())))
    fake.labels.clear()
    done = apply(together(replace(first, nodes=()), second))
    assert (done["nodes"], done["released"]) == (1, 1)
    assert fake.node["metadata"]["labels"]["tier"] == "train"
    assert fake.node["spec"]["taints"] == [TAINT]
    assert all(LABELS.items() <= labels.items() for labels in fake.labels)


def test_nothing_is_written_and_each_missing_node_is_named_if_pools_lack_nodes(
    fake: Fake,
) -> None:
    first, second = (replace(pool(n), nodes=("gpu-1", f"{n}-9")) for n in ("l4", "a100"))
    with pytest.raises(ClusterError) as error:
        apply(together(first, second))
    assert [fault.place for fault in error.value.faults] == [
        "pool l4: node l4-9",
        "pool a100: node a100-9",
    ]
    assert fake.labels == []


def test_a_pool_that_is_no_longer_declared_is_released(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(pool("l4"), nodes=())
    done = apply(together(pool("a100", TAINT), other))
    monkeypatch.setenv(PREVIOUS, json.dumps(done))
    assert apply(together(other))["released"] == 1
    assert fake.node["metadata"]["labels"] == {}
    assert fake.node["spec"]["taints"] == []


def test_a_command_of_one_pool_in_an_earlier_state_keeps_what_was_taken_over(fake: Fake) -> None:
    earlier = pool("a100", TAINT, tier="train")
    apply(earlier)
    apply(together(earlier))
    labels, spec = dict(fake.node["metadata"]["labels"]), copy.deepcopy(fake.node["spec"])
    assert release(earlier) == {"released": 0}
    assert (fake.node["metadata"]["labels"], fake.node["spec"]) == (labels, spec)
    assert release(together(earlier)) == {"released": 1}
    assert fake.node["metadata"]["labels"] == {}


def test_a_command_of_one_pool_in_an_earlier_state_releases_what_nobody_took_over(
    fake: Fake,
) -> None:
    earlier = pool("a100", TAINT)
    apply(earlier)
    assert release(read(PoolsScheduling | PoolScheduling, write(earlier))) == {"released": 1}
    assert fake.node["metadata"]["labels"] == {}


def test_a_new_node_is_closed_also_if_the_first_run_was_killed_before_it_set_the_taints(
    fake: Fake,
) -> None:
    new = replace(pool("a100", TAINT), startup_taint=True, resources=("nvidia.com/gpu",))
    request = fake.request

    async def killed(method: str, url: str, **options: Any) -> Json:
        if isinstance(options.get("body"), list):
            raise RuntimeError("killed")
        return await request(method, url, **options)

    fake.request = killed  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="killed"):
        apply(together(new))
    assert RECORD in fake.node["metadata"]["annotations"]
    fake.request = request  # type: ignore[method-assign]
    apply(together(new))
    assert fake.node["spec"]["taints"] == [TAINT, startup_taint.TAINT]
    assert json.loads(fake.node["metadata"]["annotations"][RECORD]) == [TAINT]
    assert apply(together(new))["changed"] == 0


FOREIGN_RECORDS = {
    "a number": "9",
    "no JSON": "{",
    "a mapping": "{}",
    "a list of texts": '["a"]',
    "a taint without an effect": '[{"key": "a"}]',
    "a value that is no text": '[{"key": "a", "effect": "NoSchedule", "value": 1}]',
    "deeply nested": "[" * 50_000,
    "too long": json.dumps([TAINT] * 10_000),
}


@pytest.mark.promise(
    "A record of taints that this program did not write stops the change of its node only, and the "
    "error names node and annotation."
)
@pytest.mark.parametrize("run", [apply, release])
@pytest.mark.parametrize("name", FOREIGN_RECORDS)
def test_a_record_of_taints_in_another_form_names_node_and_annotation(
    fake: Fake, run: Callable[[PoolScheduling], Json], name: str
) -> None:
    apply(pool("a100", TAINT))
    fake.node["metadata"]["annotations"][RECORD] = FOREIGN_RECORDS[name]
    with pytest.raises(ClusterError, match=f"node gpu-1: annotation {RECORD}") as raised:
        run(pool("a100", TAINT))
    assert "node gpu-1: node gpu-1" not in str(raised.value)
    assert fake.node["spec"]["taints"] == [TAINT]


@pytest.mark.parametrize("name", FOREIGN_RECORDS)
def test_an_inspection_reports_all_taints_of_a_node_whose_record_has_another_form(
    name: str,
) -> None:
    found = node()
    found["metadata"]["annotations"] = {RECORD: FOREIGN_RECORDS[name]}
    found["spec"]["taints"] = [OWN]
    assert list(map(str, inspect._lasting(found))) == ["example.com/own=x:NoSchedule"]
    found["metadata"]["annotations"] = {RECORD: json.dumps([OWN])}
    assert inspect._lasting(found) == ()
