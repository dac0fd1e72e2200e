"""Edits of stack files whose claims are measured: sections added, changed and removed.

`VALUES` has values of each section. Each value gives an edit that adds the section, and each pair
of neighbors one that changes it. The test also measures the way back of each edit, so it removes
what was added. `SPECIAL` has edits of several parts, and edits that are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tests.proofs.e2e.claims import Edit, Workload
from tests.proofs.e2e.kills import chance
from tests.proofs.e2e.project import Json

Change = Callable[[Json], None]
IDLE: tuple[Workload, ...] = ()
BUSY = (
    Workload(name="train", node="gpu-1", gpus=8),
    Workload(name="web", node="gpu-2"),
    Workload(name="far", node="gpu-4", gpus=4),
)
SHARED = {"config": {"sharing": {"timeSlicing": {"resources": [
    {"name": "nvidia.com/gpu", "replicas": 4}
]}}}}  # fmt: skip


def section(**changes: Any) -> Change:
    """Return an edit that sets sections."""
    return lambda document: document.update(changes)


def pool(**changes: Any) -> Change:
    """Return an edit of the first pool."""
    return lambda document: document["pools"][0].update(changes)


def no(*names: str) -> Change:
    """Return an edit that takes sections out."""

    def change(document: Json) -> None:
        for name in names:
            del document[name]

    return change


def no_host(*names: str) -> Change:
    """Return an edit that takes hosts out."""

    def change(document: Json) -> None:
        document["hosts"] = [each for each in document["hosts"] if each["name"] not in names]

    return change


def both(*changes: Change) -> Change:
    """Return several edits as one."""

    def change(document: Json) -> None:
        for each in changes:
            each(document)

    return change


def renamed_host(document: Json) -> None:
    document["hosts"][1].update(name="rack-2", node="gpu-2")


def second_pool(document: Json) -> None:
    document["pools"] = [
        {"name": "a100", "nodes": ["gpu-[3-4]"], "gpusPerNode": 8},
        {"name": "old", "nodes": ["gpu-[1-2]"], "gpusPerNode": 8},
    ]


def merged_pools(document: Json) -> None:
    document["pools"] = [{"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8}]


def entry(number: int, **changes: Any) -> Change:
    """Return an edit of one host, by its index."""
    return lambda document: document["hosts"][number].update(changes)


WITHOUT_2 = ["gpu-1", "gpu-[3-4]"]
WEB = (Workload(name="web", node="gpu-2"),)
VALUES: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "devicePlugin": (
            SHARED,
            {"namespace": "gpu-plugin"},
            {"config": {"flags": {"failOnInitError": False}}},
            {"resources": {"limits": {"memory": "100Mi"}}},
            {"extraValues": {"priorityClassName": "system-node-critical"}},
        ),
        "guardrails": (
            {"mode": "audit"},
            {"mode": "warn"},
            {"mode": "enforce"},
            {"mode": "warn", "maxGpusPerPod": 8},
            {"mode": "warn", "rules": {"GPU050": "off"}},
            {"mode": "warn", "quotas": [
                {"namespace": "claims", "resources": {"nvidia.com/gpu": 16}}
            ]},
            {"mode": "warn", "quotas": [
                {"namespace": "claims", "resources": {"nvidia.com/gpu": 24}}
            ]},
        ),
        "maintenance": (["gpu-3"], ["gpu-[3-4]"], ["gpu-4"]),
        "monitoring": (
            {},
            {"intervalSeconds": 60},
            {"hotCelsius": 80},
            {"namespace": "metrics"},
            {"labels": {"release": "prom"}},
        ),
        "platform": ("device-plugin", "gpu-operator", "dra"),
        "reboot": ({"when": "required"},),
        "rollout": ({"maxUnavailable": 2}, {"maxUnavailable": 1}),
        "runtime": ({"devicesByEnvironment": True}, {"cdi": False}),
        "scheduling": (
            {"priorityClasses": [{"name": "train", "value": 1000}]},
            {"priorityClasses": [{"name": "train", "value": 2000}]},
            {"priorityClasses": [{"name": "train", "value": 1000}, {"name": "idle", "value": 1}]},
            {"tolerations": [{"key": "example.com/spot", "operator": "Exists"}]},
            {"nodes": {"gpu-3": {"labels": {"example.com/rack": "r9"}}}},
            {"nodes": {"gpu-3": {"taints": ["example.com/x=:NoSchedule"]}}},
        ),
        "stateCopies": (3, 5),
        "system": (
            {"sysctl": {"vm.max_map_count": "262145"}},
            {"sysctl": {"vm.max_map_count": "262146"}},
            {"sysctl": {"vm.max_map_count": "262146", "fs.inotify.max_user_watches": "524288"}},
            {"swapOff": False},
            {"modules": ["overlay"]},
            {"limits": {"memlock": -1}},
        ),
        "validation": (
            {"timeoutSeconds": 121},
            {"timeoutSeconds": 121, "busy": "wait"},
            {"timeoutSeconds": 121, "podAnnotations": {"example.com/team": "ml"}},
            {"timeoutSeconds": 121, "namespace": "checks"},
        ),
    }
)  # fmt: skip
"""Values of sections, by section."""
POOLS: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "labels": (
            {"nvidia.com/gpu": "true", "example.com/rack": "r3"},
            {"nvidia.com/gpu": "true", "example.com/rack": "r4"},
            {"nvidia.com/gpu": "true"},
        ),
        "nodes": (["gpu-[1-3]"], ["gpu-1", "gpu-2", "gpu-4"], ["gpu-[1-2]"]),
        "runtime": ({"devicesByEnvironment": True}, {"cdi": False}),
        "startupTaint": (True,),
        "system": ({"sysctl": {"vm.max_map_count": "262145"}}, {"limits": {"memlock": -1}}),
        "taints": (
            ["nvidia.com/gpu=present:NoSchedule", "example.com/repair=:NoSchedule"],
            ["nvidia.com/gpu=present:NoSchedule", "example.com/repair=:NoExecute"],
            ["example.com/repair=:PreferNoSchedule"],
        ),
        "unhealthyDevices": (
            {"gpu-3": {"index": [2]}},
            {"gpu-3": {"index": [2, 3]}},
            {"gpu-3": {"index": [2]}, "gpu-4": {"index": [0]}},
        ),
    }
)
"""Values of settings of a pool, by setting."""
HOSTS: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "system": ({"sysctl": {"vm.max_map_count": "262145"}}, {"limits": {"memlock": -1}}),
    }
)
"""Values of settings of a host, by setting."""
COMBINED = 24
"""Number of edits that change two parts at once."""


def _of_values(
    kind: str, values: Mapping[str, tuple[Any, ...]], make: Callable[..., Change]
) -> Iterator[tuple[str, Edit]]:
    """Yield edits that add each setting with each value, and that change it to the next value."""
    for key, chosen in values.items():
        for number, value in enumerate(chosen, 1):
            change, loads = make(**{key: value}), BUSY if number % 2 else IDLE
            yield (
                f"{kind}{key} {number} added",
                Edit(kind=kind + key, after=change, workloads=loads),
            )
            if number > 1:
                before = make(**{key: chosen[number - 2]})
                yield (
                    f"{kind}{key} {number - 1} to {number}",
                    Edit(kind=kind + key, before=before, after=change),
                )


SINGLE: Mapping[str, Edit] = MappingProxyType(
    {
        **dict(_of_values("", VALUES, section)),
        **dict(_of_values("pool's ", POOLS, pool)),
        **dict(_of_values("host's ", HOSTS, lambda **changes: entry(1, **changes))),
    }
)
SPECIAL: Mapping[str, Edit] = MappingProxyType(
    {
        "nothing": Edit(kind="nothing", after=lambda _: None, workloads=BUSY),
        "hosts taken out": Edit(kind="hosts", after=no("hosts"), workloads=BUSY),
        "one host taken out": Edit(kind="hosts", after=no_host("gpu-2")),
        "a host and its idle node taken out": Edit(
            kind="hosts", after=both(no_host("gpu-2"), pool(nodes=WITHOUT_2))
        ),
        "a host and its busy node taken out": Edit(
            kind="hosts", after=both(no_host("gpu-2"), pool(nodes=WITHOUT_2)), workloads=BUSY
        ),
        "a host renamed": Edit(kind="hosts", after=renamed_host),
        "hosts and their pool taken out, nodes in another pool": Edit(
            kind="hosts", before=second_pool, after=both(merged_pools, no("hosts"))
        ),
        "a pool taken out, its nodes in another": Edit(
            kind="pools", before=second_pool, after=merged_pools, workloads=BUSY
        ),
        "a node moves to another plugin of ours": Edit(
            kind="pools",
            before=pool(unhealthyDevices={"gpu-3": {"index": [2]}, "gpu-4": {"index": [0]}}),
            after=pool(unhealthyDevices={"gpu-3": {"index": [0]}, "gpu-4": {"index": [0]}}),
        ),
        "fewer GPUs per node": Edit(kind="pools", after=pool(gpusPerNode=4)),
        "another platform, with its toolkit": Edit(
            kind="runtime",
            after=section(platform="gpu-operator", gpuOperator={"toolkit": True}),
            workloads=WEB,
        ),
    }
)


def _combined() -> Iterator[tuple[str, Edit]]:
    """Yield edits of two parts of a stack file, drawn by a seed that is always the same."""
    rng = chance("combined")
    added = [name for name in SINGLE if name.endswith(" added") and "platform" not in name]
    drawn: dict[str, Edit] = {}
    while len(drawn) < COMBINED:
        one, other = rng.sample(added, 2)
        if SINGLE[one].kind == SINGLE[other].kind:
            continue
        drawn[f"{one} and {other}"] = Edit(
            kind="two parts", after=both(SINGLE[one].after, SINGLE[other].after)
        )
    yield from drawn.items()


EDITS: Mapping[str, Edit] = MappingProxyType({**SPECIAL, **SINGLE, **dict(_combined())})
"""The edits, by name; each is measured there and, if it isn't refused, back again."""
