"""Stack files that load, and faults derived from them and from the tables of Helm values."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.base.keys import fields, model_at, places
from gpu_cluster.charts import value_table
from gpu_cluster.charts.value_types import choices
from gpu_cluster.settings.declared_cluster import ClusterSettings
from gpu_rules.faults import Location
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
        if isinstance(at[-1], str) and model_at(ClusterSettings, parent) is not None:
            yield f"{place} misspelled", _changed(document, parent, _renamed(at[-1], at[-1] + "x"))
            yield f"{place} removed", _changed(document, parent, _renamed(at[-1], None))
            yield f"{place} wrapped", _changed(document, at, lambda inner: {"values": inner})
            if parent:
                moved = _changed(document, parent, _renamed(at[-1], None))
                if at[-1] not in moved:
                    yield f"{place} at the top", {**moved, at[-1]: value}
        for number, wrong in enumerate(WRONG):
            if wrong != value or type(wrong) is not type(value):
                yield f"{place} value {number}", _changed(document, at, lambda _, new=wrong: new)
    for key, paths in places(ClusterSettings).items():
        name = paths[0].rpartition(".")[2]
        if key and name not in fields(ClusterSettings):
            yield f"{name} elsewhere", {**document, name: "x"}


def values() -> Iterator[tuple[str, Json]]:
    """Yield documents with Helm values: each path as it is, misspelled, misplaced, wrapped."""
    for chart, (platform, section) in SECTIONS.items():
        series = value_table.SERIES[chart][-1]
        table = value_table.table(chart, f"{series}.0")

        def stack(path: str, value: Any) -> Json:
            nested = value
            for step in reversed(path.split(".")):
                nested = {step: nested}
            return declared("test", platform if platform in WAYS else f"{platform}-preinstalled") | {
                section: {"extraValues": nested}
            }

        for path, entry in table.values.items():
            kinds = entry.type.split(" or ")
            samples = [
                sample
                for kind in kinds
                for sample in (choices(kind) if "|" in kind else SAMPLES[kind])
            ]
            head, _, last = path.rpartition(".")
            for number, sample in enumerate(samples):
                yield f"{chart} {path} {number}", stack(path, sample)
                yield f"{chart} {path} {number} wrapped", stack(f"{chart}-umbrella.{path}", sample)
                wrong = f"{head}.{last}x" if head else f"{last}x"
                yield f"{chart} {path} {number} misspelled", stack(wrong, sample)
                if head:
                    yield f"{chart} {path} {number} at the top", stack(last, sample)
            for number, wrong_value in enumerate(WRONG):
                yield f"{chart} {path} value {number}", stack(path, wrong_value)
        for path in table.dead:
            for number, sample in enumerate((True, "x", {"a": "b"}, [])):
                yield f"{chart} {path} dead {number}", stack(path, sample)
        for path in table.later:
            yield f"{chart} {path} later", stack(path, True)


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
