"""Find by what, in the cluster, somebody overrules a setting of the stack file. Pure functions.

That are labels and annotations of nodes, and edits of the DaemonSets that an operator made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_cluster.desired.pool import PoolScheduling
from gpu_cluster.kubernetes.api import Json
from gpu_cluster.kubernetes.labels import FIELD_MANAGERS, owned_keys
from gpu_cluster.kubernetes.resources import MIG_LABEL
from gpu_cluster.nodes.inspect import node_name
from gpu_cluster.platforms.base import NodeOverride, OperandOverride
from gpu_cluster.settings.nodes.node_range import ranges
from gpu_rules.faults import Fault, FaultSeverity
from gpu_rules.printable import printable, shortened

NAMED = 5
"""Maximum number of groups of nodes that a message names."""
LONGEST = 63
"""Maximum length of a value or of a field manager's name in a message, in characters."""
HASH = "nvidia.com/last-applied-hash"
"""Annotation by which the GPU Operator compares a DaemonSet (object_controls.go)."""


@dataclass(frozen=True)
class Overruled:
    """A label or annotation of a node that overrules a setting.

    Attributes:
        node: Name of the node.
        override: Its meaning.
        value: Its value.
        manager: Field manager that set it; empty if the API server doesn't say.
    """

    node: str
    override: NodeOverride
    value: str
    manager: str


def overruled(
    nodes: Iterable[Json], overrides: Sequence[NodeOverride], pool: PoolScheduling, layout: str
) -> Iterator[Overruled]:
    """Yield the labels and annotations of nodes that overrule settings.

    A label that the stack file declares, or that this program has set, is left out: its changes
    are drift. Nodes without declared GPUs are left out too.

    Args:
        nodes: Node objects of the pool.
        overrides: Labels and annotations with which the platform's nodes overrule settings.
        pool: Declared labels of the pool.
        layout: Name of the pool's MIG layout; empty if it declares none.
    """
    for node in nodes if pool.gpus else ():
        name = node_name(node)
        declared = {*pool.of_node(name).labels, *([MIG_LABEL] if layout else [])}
        for override in overrides:
            place = "annotations" if override.is_annotation else "labels"
            value = str((node["metadata"].get(place) or {}).get(override.key, ""))
            if override.key not in declared and override.overrules(value):
                manager = _manager(node, override.key, place)
                if not manager.startswith(FIELD_MANAGERS):
                    yield Overruled(name, override, value, manager)


def _manager(node: Json, key: str, place: str) -> str:
    """Return the field manager that owns a key of a node; this program's if there are more."""
    managers = [
        str(entry.get("manager", ""))
        for entry in node["metadata"].get("managedFields") or ()
        if key in owned_keys(entry, place)
    ]
    ours = (name for name in managers if name.startswith(FIELD_MANAGERS))
    return next(ours, "".join(managers[-1:]))


def warnings(found: Iterable[Overruled]) -> Iterator[Fault]:
    """Yield one warning for all nodes on which a field manager set the same key and value."""
    nodes: dict[tuple[NodeOverride, str, str], list[str]] = {}
    for each in found:
        nodes.setdefault((each.override, each.value, each.manager), []).append(each.node)
    for (override, value, manager), names in nodes.items():
        place = f"node{'s' if names[1:] else ''} {shortened([*ranges(names)], NAMED)}"
        by = _set_by(manager)
        if override.is_annotation:
            yield Fault(
                place,
                f"annotation {override.key}={printable(value, LONGEST)}{by}",
                f"no such annotation: {override.effect}, whatever {override.setting} says",
                "remove the annotation with `kubectl annotate node`",
                FaultSeverity.WARNING,
            )
            continue
        yield Fault(
            place,
            f"label {override.key}={printable(value, LONGEST)}{by}",
            f"no such label: {override.effect}, whatever {override.setting} says",
            "remove the label with `kubectl label node`, or declare it in `labels` of the pool",
            FaultSeverity.WARNING,
        )


def _set_by(manager: str) -> str:
    return f", set by {printable(manager, LONGEST)}" if manager else ""


@dataclass(frozen=True)
class EditedOperand:
    """An edit of a DaemonSet that an operator made, by which a setting is overruled.

    Attributes:
        daemon_set: Namespace and name.
        text: What was written: a variable or argument with its value, or a ConfigMap's name.
        setting: The setting; empty if a ConfigMap may have any variable.
        manager: Field manager that wrote it.
    """

    daemon_set: str
    text: str
    setting: str
    manager: str


def edited_operands(
    sets: Iterable[Json], overrides: Sequence[OperandOverride]
) -> Iterator[EditedOperand]:
    """Yield the edits of an operator's DaemonSets that overrule settings.

    What the operator itself wrote is as the settings say. An edit shows that it was made by another
    field manager than the one that wrote the operator's annotation `HASH`.

    Args:
        sets: DaemonSets in the platform's namespaces; others may use the same labels elsewhere.
        overrides: Variables and arguments that overrule settings.
    """
    apps = {each.app for each in overrides}
    for item in sets:
        metadata = item["metadata"]
        app = str((metadata.get("labels") or {}).get("app", ""))
        entries = metadata.get("managedFields") or ()
        operator = {
            str(entry.get("manager", ""))
            for entry in entries
            if HASH in owned_keys(entry, "annotations")
        }
        if app not in apps or not operator:
            continue
        known = {(each.is_argument, each.name): each.setting for each in overrides
                 if each.app == app}  # fmt: skip
        for entry in entries:
            manager = str(entry.get("manager", ""))
            if manager not in operator and not entry.get("subresource"):
                for text, setting in dict(_edits(item, entry, known)).items():
                    name = f"{metadata['namespace']}/{metadata['name']}"
                    yield EditedOperand(name, text, setting, manager)


def _edits(
    item: Json, entry: Json, known: Mapping[tuple[bool, str], str]
) -> Iterator[tuple[str, str]]:
    """Yield what an entry of the managed fields owns in the containers, and the setting of each."""
    spec = item["spec"]["template"]["spec"]
    for group in ("initContainers", "containers"):
        for container in spec.get(group) or ():
            steps = ("f:spec", "f:template", "f:spec", f"f:{group}")
            owned = _element(_below(entry.get("fieldsV1"), *steps), container["name"])
            variables = _below(owned, "f:env")
            for variable in container.get("env") or ():
                fields = _element(variables, variable["name"])
                setting = known.get((False, variable["name"]))
                if setting and {"f:value", "f:valueFrom"} & {*fields}:
                    yield _variable_text(variable), setting
            if "f:envFrom" in owned:
                for source in container.get("envFrom") or ():
                    name = next(iter(source.values()), None)
                    if isinstance(name, Mapping):
                        yield f"all variables of {printable(str(name.get('name')), LONGEST)}", ""
            if "f:args" in owned:
                for argument in container.get("args") or ():
                    name = str(argument).lstrip("-").partition("=")[0]
                    if setting := known.get((True, name)):
                        yield f"argument {printable(str(argument), 2 * LONGEST)}", setting


def _variable_text(variable: Json) -> str:
    source = variable.get("valueFrom")
    value = "the value of another object" if source else str(variable.get("value", ""))
    return f"variable {variable['name']}={printable(value, LONGEST)}"


def _below(fields: Any, *steps: str) -> Mapping[str, Any]:
    for step in steps:
        fields = fields.get(step) if isinstance(fields, Mapping) else None
    return fields if isinstance(fields, Mapping) else {}


def _element(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the owned fields of a list's element with a name."""
    return _below(fields, f"k:{json.dumps({'name': name}, separators=(',', ':'))}")


def operand_warnings(found: Iterable[EditedOperand]) -> Iterator[Fault]:
    """Yield a warning for each edit of an operator's DaemonSet."""
    for each in found:
        yield Fault(
            f"DaemonSet {each.daemon_set}",
            f"{each.text}{_set_by(each.manager)}",
            f"what the operator wrote: the edit overrules {each.setting or 'any setting'}",
            f"remove the annotation {HASH} of the DaemonSet: the operator then writes it again",
            FaultSeverity.WARNING,
        )
