"""Stack files that load, and faults derived from them and from the tables of Helm values."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.base.keys import fields, model_at, places
from gpu_cluster.charts import value_table
from gpu_cluster.charts.value_types import choices
from gpu_cluster.settings.declared_cluster import ClusterSettings
from gpu_rules.faults import Location
from tests.proofs.advice.follow import faults_of
from tests.proofs.platform.ways import WAYS, declared

Json = dict[str, Any]
ROOT = Path(__file__).parents[3]
FILES = sorted(
    path
    for folder in (ROOT, ROOT / "examples")
    for path in folder.rglob("Pulumi.*.yaml")
    if "venv" not in path.parts
)
COMMITTED = (
    *sorted((ROOT / "tests/components/loading/fixtures/stack_files").glob("*.yaml")),
    *sorted((ROOT / "tests/components/charts/fixtures/bad_settings").glob("*.yaml")),
)
"""Files with faults that other tests read; each fault's cure is followed here."""
SECTIONS = {
    "gpu-operator": ("gpu-operator", "gpuOperator"),
    "nvidia-device-plugin": ("device-plugin", "devicePlugin"),
    "dra-driver-nvidia-gpu": ("dra", "dra"),
    "hami": ("hami", "hami"),
}
WRONG: tuple[Any, ...] = (None, True, -1, 7, "x y", "8", "true", [], {}, [{"a": 1}], {"a": "b"})
"""Values of each type; most fields accept few of them."""
NAMES = frozenset({"name", "node", "nodes", "address", "hosts", "pools", "kubernetes"})
"""Keys whose values other parts of a file repeat: only a person knows what they should be."""
SAMPLES: Json = {
    "truth": (True, False),
    "text": ("a",),
    "path": ("/run/nvidia/driver",),
    "whole": (1,),
    "number": (2,),
    "port": (9400,),
    "share": ("25%",),
    "duration": ("60s",),
    "texts": (["a"],),
    "names": (["registry"], ["one", "two"], []),
    "references": ([{"name": "registry"}],),
    "objects": ([{"kind": "ConfigMap"}],),
    "object": ({"type": "RollingUpdate"},),
    "strings": ({"default": "version: v1\n", "small": "version: v1\n"}, {"any": "version: v1\n"}),
    "truths": ({"A": True},),
    "env": ([{"name": "A", "value": "1"}],),
    "resources": ({"limits": {"memory": "100Mi"}},),
    "tolerations": ([{"key": "cloud.google.com/gke-spot", "operator": "Exists"}],),
    "probe": ({"periodSeconds": 1},),
    "nothing": ([],),
    "null": (None,),
}
"""Values of each type of the tables of Helm values."""
SPECIAL: Json = {
    "driver.version": ["595.91.07"],
    "deviceListStrategy": ["envvar"],
    "devicePlugin.deviceListStrategy": ["envvar"],
    "devicePlugin.runtimeClassName": ["nvidia"],
    "runtimeClassName": ["nvidia"],
    "scheduler.defaultSchedulerPolicy.nodeSchedulerPolicy": ["spread"],
    "scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy": ["binpack"],
    "devicePlugin.disablecorelimit": ["true", "false"],
    "devices.nvidia.gpuCorePolicy": ["force"],
    "global.imageRegistry": ["registry.example.com/gpu"],
    "global.imageTag": ["v2.10.0"],
}
"""Values of paths whose type says less than the setting that decides them."""
TARGETS: Json = {
    "scheduling.tolerations": SAMPLES["tolerations"],
    "gpuOperator.nfd": [True, False],
    "devicePlugin.config.flags": [{"migStrategy": "none"}],
    "devicePlugin.config.sharing": [
        {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}}
    ],
    "devicePlugin.namespace": ["gpus"],
    "dra.namespace": ["gpus"],
    "devicePlugin.config.flags.gfd.noTimestamp": [True],
    "devicePlugin.config.flags.gfd.sleepInterval": ["60s"],
    "node-feature-discovery.master.serviceAccount": [{"create": True}],
    "nfd.master.serviceAccount": [{"create": True}],
}
"""Values for settings and sections to which a cure moves a value."""


def whole_documents() -> dict[str, Json]:
    """Return documents that load, by name."""
    found = {}
    for path in FILES:
        settings = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("config") or {}
        if isinstance(document := settings.get("gpu-cluster:cluster"), dict):
            found[path.relative_to(ROOT).as_posix()] = document
    return found | {way: declared("test", way) for way in WAYS}


def faulty(document: Json) -> Iterator[tuple[str, Json]]:
    """Yield copies of a document with one change each, and a name for the change."""
    for at in _walk(document):
        place = ".".join(map(str, at))
        value = _at(document, at)
        parent = at[:-1]
        is_name = any(step in NAMES for step in at)
        if is_name and at[-1] in NAMES:
            continue
        if isinstance(at[-1], str) and model_at(ClusterSettings, parent) is not None:
            yield f"{place} misspelled", _changed(document, parent, _renamed(at[-1], at[-1] + "x"))
            yield f"{place} removed", _changed(document, parent, _renamed(at[-1], None))
            yield f"{place} wrapped", _changed(document, at, lambda inner: {"values": inner})
            if parent:
                moved = _changed(document, parent, _renamed(at[-1], None))
                if at[-1] not in moved:
                    yield f"{place} at the top", {**moved, at[-1]: value}
        for number, wrong in enumerate(() if is_name else WRONG):
            if wrong != value or type(wrong) is not type(value):
                yield f"{place} value {number}", _changed(document, at, lambda _, new=wrong: new)
    for key, paths in places(ClusterSettings).items():
        name = paths[0].rpartition(".")[2]
        if key and name not in fields(ClusterSettings):
            yield f"{name} elsewhere", {**document, name: "x"}


def values(chart: str) -> Iterator[tuple[str, Json]]:
    """Yield documents with Helm values: each path as it is, misspelled, misplaced, wrapped.

    Faults are derived from values that load, or that a setting decides: what is wrong in two ways
    gets two faults, one after the other.
    """
    table = value_table.table(chart, f"{value_table.SERIES[chart][-1]}.0")
    stack = partial(_with_value, *SECTIONS[chart])
    for path, entry in table.values.items():
        samples = [one for one in _samples(path, entry.type) if _is_right(stack(path, one))]
        head, _, last = path.rpartition(".")
        for number, sample in enumerate(samples):
            yield f"{chart} {path} {number}", stack(path, sample)
            yield f"{chart} {path} {number} misspelled", stack(f"{path}x", sample)
            if entry.setting is None:
                yield f"{chart} {path} {number} wrapped", stack(f"umbrella.{path}", sample)
            if head:
                yield f"{chart} {path} {number} at the top", stack(last, sample)
        for number, wrong in enumerate(WRONG if samples else ()):
            if not isinstance(wrong, str) or (not entry.setting and "text" not in entry.type):
                yield f"{chart} {path} value {number}", stack(path, wrong)
    for path, dead in table.dead.items():
        for number, sample in enumerate(_moved_samples(table, dead.instead)):
            yield f"{chart} {path} dead {number}", stack(path, sample)
    for path in table.later:
        yield f"{chart} {path} later", stack(path, True)


def _with_value(platform: str, section: str, path: str, value: Any) -> Json:
    """Return a stack with one Helm value."""
    for step in reversed(path.split(".")):
        value = {step: value}
    way = platform if platform in WAYS else f"{platform}-preinstalled"
    return declared("test", way) | {section: {"extraValues": value}}


def _samples(path: str, kind: str) -> list[Any]:
    words = [word for word in kind.split(" or ") if word != "null"]
    return SPECIAL.get(path) or [
        sample for word in words for sample in (choices(word) if "|" in word else SAMPLES[word])
    ]


def _is_right(document: Json) -> bool:
    """Return True if a document loads, or has only values that settings decide."""
    return all("only from the stack file" in one.wanted for one in faults_of(document))


def _moved_samples(table: value_table.Table, cure: str) -> list[Any]:
    """Return values for a path that the chart doesn't read, as its cure's target takes them."""
    match = re.match(r"move it to (?:extraValues\.)?([\w.-]+)|write extraValues", cure)
    if match is None or match[1] is None:
        return [True, "x", {"a": "b"}, []]
    if match[1] in table.values:
        return _samples(match[1], table.values[match[1]].type)
    return TARGETS[match[1]]


def committed(path: Path) -> Any:
    """Return the cluster that a file with faults declares; None if it declares none."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        return document["config"]["gpu-cluster:cluster"]
    except (yaml.YAMLError, KeyError, TypeError, UnicodeDecodeError, RecursionError):
        return None


def _walk(value: Any, at: Location = ()) -> Iterator[Location]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, below in items:
        yield (*at, key)
        yield from _walk(below, (*at, key))


def _at(value: Any, at: Location) -> Any:
    for step in at:
        value = value[step]
    return value


def _changed(document: Json, at: Location, change: Any) -> Json:
    copied = copy.deepcopy(document)
    if not at:
        return dict(change(copied))
    parent = _at(copied, at[:-1])
    parent[at[-1]] = change(parent[at[-1]])
    return copied


def _renamed(key: str, new: str | None) -> Any:
    return lambda mapping: {
        (new if name == key else name): value
        for name, value in mapping.items()
        if not (name == key and new is None)
    }
