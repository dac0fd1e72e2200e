"""Readers of outside input, and hostile inputs of any size for each of them.

A reader is each target of the fuzzer, and each program part that reads files, lists or messages
which somebody else wrote. `Reader.slow_steps` doubles an input three times, and compares the
processor time of the calls.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import inf
from pathlib import Path
from textwrap import indent
from typing import Any

import httpx
import pulumi
from command_provider import inputs as plugin_inputs  # type: ignore[import-not-found]
from pulumi.runtime.proto import provider_pb2

from gpu_cluster import property_values
from gpu_cluster.commands.forges.forge import ForgeError
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.kubernetes.grammar import IllFormed
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes.causes.cause import Around
from gpu_cluster.nodes.causes.events import newest_first
from gpu_cluster.nodes.causes.pod import cause_of
from gpu_cluster.nodes.gpu_holders import list_pods
from gpu_cluster.nodes.taints import RECORD, recorded_taints
from gpu_cluster.settings.nodes.node_range import runs
from gpu_cluster.ssh.client import _Output
from gpu_rules.check import kustomization, rendered
from gpu_rules.check.context import FILE, ContextError, configured
from gpu_rules.check.document import Source, judge
from gpu_rules.check.formats import FORMATS
from gpu_rules.check.lines import location
from gpu_rules.check.report import Report
from gpu_rules.check.result import Found, Judged
from gpu_rules.check.stream import split
from gpu_rules.faults import ConfigError, FaultError
from gpu_rules.rules import (
    RULES,
    Context,
    NodeTaint,
    PoolFacts,
    Severity,
    Subject,
    embedded,
    evaluate,
)
from gpu_rules.rules.exemptions import is_match
from gpu_rules.rules.registry import evaluate_together, objects_of
from gpu_rules.settings_file import of_nodes
from tests.fixtures.api import client
from tests.proofs.attacks import command_readers, fuzz, inspection_readers, samples
from tests.proofs.attacks.targets import TARGETS

Shape = Callable[[int], Any]
"""Returns an input whose size grows linearly with a number."""

MOST = 2.5
"""Largest ratio of the processor time of a call with twice the input."""
CERTAIN = 3.3
"""Ratio that only a call in more than linear time has; input twice as large as a processor's cache
has one of up to 3.
"""
LARGER = 3
"""How often all inputs are doubled again after ratios between `MOST` and `CERTAIN`."""
LEAST_SECONDS = 0.04
"""Processor time of the first call that is compared; shorter calls are noise."""
TIMES = 9
"""Measurements of each call, if the first ones exceed `MOST`: other processes disturb some, and on
a busy machine most of them.
"""
LONG_SECONDS = 10.0
"""Processor time of the largest call with which inputs are still enlarged. Much longer calls would
take a proof an hour.
"""
LARGEST = 50_000
"""Largest number of repeated parts; a call that is still short needs no bound."""

MOST_SECONDS = 60.0
"""Processor time after which a call is ended."""


class _Endless(BaseException):
    """Error: a call takes longer than `MOST_SECONDS`."""


def _end(*_: object) -> None:
    raise _Endless


PIECES = (
    *("9", " ", "\n", "a=b\n", "[", "{", "}{", ":", "- ", "a: ", "{{", "}}", "`", '"', "\\", "#"),
    *("&a ", "<", "\x1b", "a,", "/", "://", "0.", "---\n", "- a\n", "\ud800", "GPU-1 "),
)
"""Texts that are repeated in place of a text."""


@dataclass(frozen=True)
class Reader:
    """A reader of outside input.

    Attributes:
        read: Function that reads an input; it may refuse it by an exception of `refusals`.
        shapes: Inputs that grow, by what grows.
        refusals: Exceptions that refuse an input.
    """

    read: Callable[[Any], object]
    shapes: Mapping[str, Shape]
    refusals: tuple[type[Exception], ...] = ()

    def seconds(self, value: Any) -> float:
        """Return the processor time of one call; infinite if it exceeds `MOST_SECONDS`."""
        gc.disable()
        before = signal.signal(signal.SIGPROF, _end)
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        begun = time.process_time()
        try:
            with suppress(*self.refusals):
                self.read(value)
            return time.process_time() - begun
        except _Endless:
            return inf
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
            gc.enable()

    def slow_steps(self, shape: Shape) -> list[float]:
        """Return how much more time a call takes each time that the input is doubled.

        The result is empty if no step is larger than `MOST`, or if calls with the largest input are
        short, since inputs of its size are refused. An input that does not fit into a cache any
        more makes one step larger, and so does one whose output must be shortened; a call in more
        than linear time has larger steps with all larger inputs.
        """
        number = self._smallest(shape)
        if number is None:
            return []
        steps = self._steps(shape, number)
        for doubled in range(1, LARGER + 1):
            if not steps or not steps[-1] <= CERTAIN:
                return steps
            if self.seconds(shape(number << doubled + 3)) > LONG_SECONDS:
                break
            steps = self._steps(shape, number << doubled)
        if not steps or not max(steps) <= CERTAIN:
            return steps
        # Where other processes fill the caches, calls in linear time have such steps as well.
        rows = LINEAR.shapes["rows"]
        usual = LINEAR._ratios(rows, (LINEAR._smallest(rows) or 1) << LARGER)
        is_slow = any(step > MOST * other / 2 for step, other in zip(steps, usual, strict=True))
        return steps if is_slow else []

    def _smallest(self, shape: Shape) -> int | None:
        """Return the size of the first input whose call isn't short; None if all calls are."""
        number = 8
        while self.seconds(shape(number)) < LEAST_SECONDS:
            if (number := number * 2) > LARGEST:
                return None
        return number

    def _steps(self, shape: Shape, number: int) -> list[float]:
        """Return the steps from an input of a size; empty if none is larger than `MOST`."""
        ratios = self._ratios(shape, number)
        return [round(ratio, 1) for ratio in ratios] if max(ratios) > MOST else []

    def _ratios(self, shape: Shape, number: int) -> list[float]:
        """Return the ratios of the times of calls whose input is doubled three times.

        The time of a call is the least of up to `TIMES` measurements, or of three that are certain.
        """
        least = [inf] * 4
        for measured in range(1, TIMES + 1):
            for step in range(4):
                value = shape(number << step)
                least[step] = min(least[step], self.seconds(value))
            if least[-1] < LEAST_SECONDS:
                return [1.0] * 3
            ratios = [after / max(before, LEAST_SECONDS) for before, after in pairwise(least)]
            if max(ratios) <= MOST or (measured >= 3 and not ratios[-1] <= CERTAIN):
                break
        return ratios


LINEAR = Reader(
    lambda rows: json.loads(json.dumps(rows)),
    {"rows": lambda number: [{"name": f"row {each}", "value": each} for each in range(number)]},
)
"""Reader in linear time; it shows how much a busy machine slows calls with larger inputs down."""


def texts(around: Callable[[str], Any] = lambda text: text) -> dict[str, Shape]:
    """Return shapes that repeat each text of `PIECES`."""
    return {f"{piece!a} again": partial(_repeated, around, piece) for piece in PIECES}


def _repeated(around: Callable[[str], Any], piece: str, number: int) -> Any:
    return around(piece * number)


def grown(value: Any) -> dict[str, Shape]:
    """Return shapes that grow one list, mapping or text of a JSON value, and one that grows all."""
    paths = dict.fromkeys(_paths(value))
    shapes: dict[str, Shape] = {
        f"{'.'.join(map(str, path)) or 'all'} grows": partial(_grow, value, path) for path in paths
    }
    return {**shapes, "all lists grow": partial(_grow_lists, value)}


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of each part that can grow; of a list only its first item's."""
    if isinstance(value, str | list | dict):
        yield path
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _paths(part, (*path, key))
    elif isinstance(value, list) and value:
        yield from _paths(value[0], (*path, 0))


def _grow(value: Any, path: tuple[str | int, ...], number: int) -> Any:
    if not path:
        return _many(value, number)
    if isinstance(value, dict):
        return {**value, path[0]: _grow(value[path[0]], path[1:], number)}
    return [_grow(value[0], path[1:], number), *value[1:]]


def _grow_lists(value: Any, number: int) -> Any:
    if isinstance(value, dict):
        return {key: _grow_lists(part, number) for key, part in value.items()}
    return _many(value, number) if isinstance(value, list) else value


def _many(value: Any, number: int) -> Any:
    if isinstance(value, str):
        return value + "a1-" * number
    if isinstance(value, list):
        return [_distinct(value[i % len(value)], i) for i in range(number)] if value else value
    pairs = list(value.items()) or [("a", "b")]
    return {
        **value,
        **{f"{pairs[i % len(pairs)][0]}{i}": pairs[i % len(pairs)][1] for i in range(number)},
    }


def _distinct(value: Any, number: int) -> Any:
    """Return an item with other names: texts of fields that are names end in a number."""
    if isinstance(value, str):
        return f"{value}{number}"
    if not isinstance(value, dict):
        return value
    named = {"name", "names", "uid", "node", "pool", "was", "why", "what", "key", "text"}
    return {
        key: _distinct(part, number)
        if key in named or isinstance(part, dict)
        else [_distinct(item, number) for item in part]
        if isinstance(part, list) and key in {"nodes", "names"}
        else part
        for key, part in value.items()
    }


def _targets() -> Iterator[tuple[str, Reader]]:
    """Yield a reader for each target of the fuzzer, with the values of its corpus that grow."""
    for name, values in fuzz.corpus().items():
        shapes: dict[str, Shape] = {}
        fixed = TARGETS[name].fixed
        for key, shape in grown(values[0]).items():
            if key.rpartition(".")[2].removesuffix(" grows") not in fixed:
                shapes[key] = shape
        shapes |= {key: shape for key, shape in _more(name)}
        yield name, Reader(TARGETS[name].check, shapes)


def _more(name: str) -> Iterator[tuple[str, Shape]]:
    for field, value in TEXTS.get(name, {}).items():
        around = (lambda text: text) if value is None else partial(_with, value, field)
        yield from ((f"{field} {key}", shape) for key, shape in texts(around).items())
    yield from SHAPES.get(name, {}).items()


def _with(value: Mapping[str, Any], field: str, text: str) -> Any:
    return {**value, field: text}


TEXTS: Mapping[str, Mapping[str, Mapping[str, Any] | None]] = {
    **{name: {"text": None} for name in TARGETS if name.startswith("host-")},
    **{name: {"text": None} for name in ("errors", "manifest", "document", "shown", "amount")},
    "inventory": {"ini": {"yaml": {}}},
    "secret": {"text": {"packed": False, "cut": False}},
    "pods": {"log": {"pods": [], "record": "{}"}, "record": {"pods": [], "log": ""}},
    "hidden": {"before": {"after": "", "name": "token", "form": "json"}},
    "chart": {
        "values.yaml": {"Chart.yaml": "name: b\n"},
        "templates/a.yaml": {"Chart.yaml": "name: b\n"},
    },
}
"""Targets whose input is a text, or a mapping with a text: the field, and the other fields."""


def _change(**cluster: Any) -> Any:
    return {
        "version": "v1",
        "stack": "d",
        "outcome": "changed",
        "clusters": [{"name": "c", **cluster}],
    }


def _rows(number: int, make: Callable[[int], Any]) -> list[Any]:
    return [make(row) for row in range(number)]


def _gaps(number: int) -> Any:
    return _change(
        gaps=_rows(number, lambda i: {"why": f"x{i}", "nodes": ["n"], "gpus": 1, "atMost": 1}),
        pools=_rows(number, lambda i: {"pool": f"p{i}", "gpus": {"before": 1, "after": 1}}),
        nodes=[{"node": "n", "outage": "rollout"}],
        down={"nodes": ["n"], "gpus": number, "atMost": number},
    )


def _pools(number: int) -> Any:
    gpus = {"before": 1, "after": 2}
    return _change(
        pools=_rows(number, lambda i: {"pool": f"p{i}", "gpus": gpus}),
        nodes=_rows(
            number, lambda i: {"node": f"n{i}", "was": f"q{i}", "pool": f"p{i}", "gpus": gpus}
        ),
        changes=_rows(
            number, lambda i: {"subject": "host", "names": [f"h{i}"], "what": f"step s{i}"}
        ),
    )


def _chain(number: int) -> Any:
    groups = (f"[g{i}]\nh{i}\n[g{i}:children]\ng{i + 1}" for i in range(number))
    return {"yaml": {}, "ini": "\n".join(groups)}


def _crowd(number: int) -> Any:
    groups = "\n".join(f"[g{i}:children]\na" for i in range(number))
    return {"yaml": {}, "ini": f"[a]\nh[1:{min(number, 5000)}]\n{groups}"}


def _shared(number: int) -> Any:
    variables = "\n".join(f"v{i}=1" for i in range(number))
    return {"yaml": {}, "ini": f"[a]\nh[1:{min(number, 5000)}]\n[all:vars]\n{variables}"}


SHAPES: Mapping[str, Mapping[str, Shape]] = {
    "change": {"gaps and pools": _gaps, "pools and nodes": _pools},
    "inventory": {
        "groups in groups": _chain,
        "groups of the same hosts": _crowd,
        "shared variables": _shared,
    },
}
"""Inputs that grow in two places."""


def _stack(document: Mapping[str, Any]) -> None:
    resolve(load(document), "test")


def _cluster(**parts: Any) -> dict[str, Any]:
    pool = {"name": "a", "nodes": ["n"], "gpusPerNode": 1}
    fixed = {"version": "v1", "kubernetes": {"context": "c"}, "platform": "device-plugin"}
    return {**fixed, "pools": [pool], **parts}


def _declared_pools(by: str, number: int) -> Any:
    chosen: Callable[[int], Any] = (
        (lambda i: {"nodes": [f"n{i}"]})
        if by == "nodes"
        else (lambda i: {"selector": {"a": f"x{i}"}, "count": 1})
    )
    return _cluster(pools=_rows(number, lambda i: {"name": f"p{i}", "gpusPerNode": 1, **chosen(i)}))


STACKS: Mapping[str, Shape] = {
    "pools": partial(_declared_pools, "nodes"),
    "pools by selector": partial(_declared_pools, "selector"),
    "names": lambda n: _cluster(
        pools=[{"name": "a", "nodes": _rows(n, "n{}".format), "gpusPerNode": 1}]
    ),
    "ranges": lambda n: _cluster(
        pools=[{"name": "a", "nodes": _rows(n, "n{}-[1-2]".format), "gpusPerNode": 1}]
    ),
    "long ranges": lambda n: _cluster(maintenance=_rows(n, "n{}-[1-5000]".format)),
    "hosts": lambda n: _cluster(
        pools=[{"name": "a", "nodes": _rows(n, "n{}".format), "gpusPerNode": 1}],
        hosts=_rows(
            n,
            lambda i: {
                "name": f"n{i}",
                "address": f"h{i}.example.org",
                "hostKey": samples.HOST_KEY,
            },
        ),
    ),
    "labels": lambda n: _cluster(
        pools=[
            {
                "name": "a",
                "nodes": ["n"],
                "gpusPerNode": 1,
                "labels": {f"k{i}": "x" for i in range(n)},
            }
        ]
    ),
    "unknown keys": lambda n: _cluster(**{f"k{i}": 1 for i in range(n)}),
    "values of the chart": lambda n: _cluster(
        devicePlugin={"extraValues": {f"k{i}": 1 for i in range(n)}}
    ),
}


def _pod(number: int) -> dict[str, Any]:
    limits = {"resources": {"limits": {"nvidia.com/gpu": "1500m"}}}
    metadata = {"name": f"p{number}", "namespace": "team"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", **limits}]},
    }


def judged(text: str) -> int:
    """Judge the documents of a text by the rules; return the number of violations."""
    sources = (Source("a.yaml", part, given=True) for part in split(text))
    results = (result for source in sources for result in judge(source, Context()))
    return sum(len(result.found) for result in results)


def pods(number: int, note: str = "") -> list[dict[str, Any]]:
    """Return pods that break a rule.

    Args:
        note: Annotation of each pod.
    """
    found = _rows(number, _pod)
    for pod in found:
        pod["metadata"]["annotations"] = {"note": note}
    return found


def list_of(items: list[dict[str, Any]]) -> str:
    """Return objects as one List."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1)


def _written(shape: Shape, number: int) -> str:
    return json.dumps(shape(number))


MANIFESTS: Mapping[str, Shape] = {
    **texts(),
    "a list": lambda n: list_of(pods(n)),
    "pods in a row": lambda n: "\n".join(json.dumps(_pod(i)) for i in range(n)),
    "pods as documents": lambda n: "\n---\n".join(json.dumps(_pod(i)) for i in range(n)),
    "documents that end": lambda n: "\n...\n".join(json.dumps(_pod(i)) for i in range(n)),
    "a pod in a template": lambda n: json.dumps(_pod(0)) + " {{" * n,
    **{f"a pod: {key}": partial(_written, shape) for key, shape in grown(_pod(0)).items()},
}


def _container(**fields: Any) -> dict[str, Any]:
    return {"name": "c", "image": "a", "resources": {"limits": {"nvidia.com/gpu": 2}}, **fields}


def _workload(number: int, namespace: str = "team", **fields: Any) -> dict[str, Any]:
    """Return a Deployment that breaks several rules."""
    pod = {"hostPID": True, "containers": [_container()], **fields}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"d{number}", "namespace": namespace},
        "spec": {"replicas": 2, "template": {"metadata": {"annotations": {}}, "spec": pod}},
    }


def _named(kind: str, version: str, number: int, spec: Any, **metadata: Any) -> dict[str, Any]:
    named = {"name": f"d{number}", "namespace": "team", **metadata}
    return {"apiVersion": version, "kind": kind, "metadata": named, "spec": spec}


def _quota(number: int, namespace: str) -> dict[str, Any]:
    hard = {"requests.nvidia.com/gpu": 1}
    return _named("ResourceQuota", "v1", number, {"hard": hard}, namespace=namespace)


def _template(number: int) -> dict[str, Any]:
    exactly = {"deviceClassName": f"d{number}", "count": 2}
    devices = {"requests": [{"name": "a", "exactly": exactly}]}
    version = "resource.k8s.io/v1"
    return _named("ResourceClaimTemplate", version, number, {"spec": {"devices": devices}})


def _class(number: int) -> dict[str, Any]:
    expression = "device.driver == 'gpu.nvidia.com'"
    spec = {
        "extendedResourceName": f"a/d{number}",
        "selectors": [{"cel": {"expression": expression}}],
    }
    return _named("DeviceClass", "resource.k8s.io/v1", number, spec)


def _autoscaler(number: int) -> dict[str, Any]:
    target = {"kind": "Deployment", "name": f"d{number}"}
    spec = {"maxReplicas": 9, "scaleTargetRef": target}
    return _named("HorizontalPodAutoscaler", "autoscaling/v2", number, spec)


def _node(number: int) -> dict[str, Any]:
    node = _named("Node", "v1", number, {"taints": [{"key": "a", "effect": "NoSchedule"}]})
    labels = {"nvidia.com/gpu.product": f"p{number}"}
    return {**node, "metadata": {"name": f"d{number}", "labels": labels},
            "status": {"capacity": {"nvidia.com/gpu": 8}}}  # fmt: skip


def _plugin(number: int) -> dict[str, Any]:
    image = ("k8s-device-plugin:1", "gpu-manager:1")[number % 2]
    selector = {f"k{number}": "a"}
    made = _workload(number, containers=[_container(image=image)], nodeSelector=selector)
    return {**made, "kind": "DaemonSet"}


def _claiming(number: int) -> dict[str, Any]:
    claims = [{"name": "a", "resourceClaimTemplateName": f"d{number}"}]
    return _workload(number, resourceClaims=claims)


def _with_many(number: int) -> dict[str, Any]:
    """Return a Deployment whose pod has many of each part."""
    names = _rows(number, "n{}".format)
    return _workload(
        0,
        tolerations=[{"key": name, "operator": "Exists"} for name in names],
        volumes=[{"name": name, "hostPath": {"path": f"/{name}"}} for name in names],
        resourceClaims=[{"name": name, "resourceClaimName": name} for name in names],
        containers=[
            _container(
                name=name,
                env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
                volumeMounts=[{"name": name, "mountPath": f"/{name}"}],
            )
            for name in names
        ],
    )


def _exempted(number: int) -> dict[str, Any]:
    made = _workload(0)
    made["metadata"]["annotations"] = {
        f"exempt.gpu-cluster/GPU{each:05}": "2030-12-31 x" for each in range(number)
    }
    return made


def _assigned(number: int) -> dict[str, Any]:
    made = _workload(0)
    made["spec"]["template"]["metadata"]["annotations"] = {
        f"hami.io/a{each}-allocated": "b" for each in range(number)
    }
    return made


_POOLED = Context(
    pools=(PoolFacts("a", 8, (NodeTaint("nvidia.com/gpu"),), nodes=1),),
    platform="device-plugin",
    max_gpus_per_pod=8,
)
"""Facts about a cluster with which each rule speaks."""
_MIXES: Mapping[str, Callable[[int], list[dict[str, Any]]]] = {
    "workloads": lambda n: _rows(n, _workload),
    "workloads and quotas": lambda n: [
        *_rows(n, _workload),
        *_rows(n, lambda i: _quota(i, "team")),
    ],
    "namespaces, workloads and quotas": lambda n: [
        *_rows(n, lambda i: _named("Namespace", "v1", i, {})),
        *_rows(n, lambda i: _workload(i, f"d{i}")),
        *_rows(n, lambda i: _quota(i, f"d{i}")),
    ],
    "workloads and autoscalers": lambda n: [*_rows(n, _workload), *_rows(n, _autoscaler)],
    "claims": lambda n: [*_rows(n, _class), *_rows(n, _template), *_rows(n, _claiming)],
    "quotas of a namespace": lambda n: [
        _named("Namespace", "v1", 0, {}),
        _workload(0, "d0"),
        *_rows(n, lambda i: _quota(i, "d0")),
    ],
    "device plugins": lambda n: _rows(n, _plugin),
    "nodes": lambda n: [*_rows(n, _node), *_rows(n, _workload)],
}
"""Objects of a stack that grow in number, by their kinds."""


def _subjects(mix: Callable[[int], list[dict[str, Any]]], number: int) -> list[list[Subject]]:
    """Return the subjects of objects, as the rules that compare several objects get them."""
    return [subjects for manifest in mix(number) for _, subjects in objects_of(manifest, _POOLED)]


def _found(number: int, **fields: Any) -> Found:
    """Return a violation whose object, document or file has a number."""
    return Found(
        **{
            **dict.fromkeys(("container", "found", "wanted", "cure"), "a"),
            "exemption": "",
            "file": "none.yaml",
            "document": 1,
            "line": number + 1,
            "rule": "GPU067",
            "title": "a",
            "severity": Severity.ADVISORY if number % 2 else Severity.MANDATORY,
            "subject": "Pod p",
            "path": "spec.hostPID",
            **fields,
        }
    )


FOUND: Mapping[str, Callable[[int], list[Found]]] = {
    "violations of an object": lambda n: _rows(n, _found),
    "objects of a document": lambda n: _rows(n, lambda i: _found(i, subject=f"Pod p{i}")),
    "documents": lambda n: _rows(n, lambda i: _found(i, document=i + 1, subject=f"Pod p{i}")),
    "files": lambda n: _rows(n, lambda i: _found(i, file=f"none{i}.yaml")),
    "rules": lambda n: _rows(n, lambda i: _found(i, rule=list(RULES)[i % len(RULES)])),
}
"""Violations that a report has, by what grows."""


def _report_of(found: list[Found]) -> Report:
    """Return the report of documents with some violations."""
    documents: dict[tuple[str, int], list[Found]] = {}
    for each in found:
        documents.setdefault((each.file, each.document), []).append(each)
    report = Report()
    for (file, document), own in documents.items():
        subjects = tuple(dict.fromkeys(each.subject for each in own))
        report.add([Judged(file, document, subjects, tuple(own))])
    return report


def _write_report(found: list[Found]) -> None:
    report = _report_of(found)
    for write in FORMATS.values():
        write(report)


def _patched(pair: tuple[str, list[tuple[int, str]]]) -> None:
    """Write the patch of a file, given its text and the document and the path of each fault."""
    text, places = pair
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "a.yaml")
        file.write_text(text)
        faults = [_found(0, file=str(file), document=number, path=path) for number, path in places]
        FORMATS["patch"](_report_of(faults))


_POD_TEXT = """\
kind: Pod
metadata:
  name: a{}
spec:
  hostPID: true
  containers:
  - name: a
    image: a:1
"""
PATCHES: Mapping[str, Shape] = {
    "documents": lambda n: (
        "---\n".join(_rows(n, _POD_TEXT.format)),
        [(i + 1, "spec.hostPID") for i in range(n)],
    ),
    "items": lambda n: (
        "items:\n" + "".join(f"- {indent(_POD_TEXT.format(i), '  ').lstrip()}" for i in range(n)),
        [(1, f"items[{i}].spec.hostPID") for i in range(n)],
    ),
    "keys": lambda n: (
        "spec:\n  a:\n" + "".join(f"    k{i}: b\n    o{i}: b\n" for i in range(n)),
        [(1, f"spec.a[k{i}]") for i in range(n)],
    ),
}
"""Files and their faults, by what grows."""


def _built(number: int) -> list[tuple[str, str]]:
    """Return the objects of a file, and the names that a kustomization gives them."""
    return [
        (json.dumps(_pod(each)), f"{'a' * (each % 50)}-p{each}-{'b' * (each % 50)}")
        for each in range(number)
    ]


def _origins(objects: list[tuple[str, str]]) -> None:
    """Find the document of each object that a kustomization built from one file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "a.yaml")
        file.write_text("\n---\n".join(written for written, _ in objects))
        for _, name in objects:
            rendered._origin(str(file), "Pod", name)


def _kustomization(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "kustomization.yaml").write_text(text, errors="replace")
        kustomization.read.cache_clear()
        kustomization.read(folder)


KUSTOMIZATIONS: Mapping[str, Shape] = {
    **texts(),
    "resources": lambda n: json.dumps({"resources": _rows(n, "a{}.yaml".format)}),
    "patches": lambda n: json.dumps({"patches": _rows(n, lambda i: {"path": f"a{i}.yaml"})}),
}


def _globs(number: int) -> tuple[str, str]:
    return "*a" * number + "b", "a" * number


def _answer(value: Any) -> None:
    pages = iter([value])  # A list that never ends is refused by its length and its time.
    asyncio.run(list_pods(client(lambda _: httpx.Response(200, json=next(pages, {})))))


def _message(message: bytes) -> None:
    news = property_values.decode(provider_pb2.CheckRequest.FromString(message).news)
    plugin_inputs.check("command:local:Command", news)


def _serialized(shape: Shape, number: int) -> bytes:
    news = property_values.encode(shape(number))
    return bytes(provider_pb2.CheckRequest(news=news).SerializeToString())


def _packets(text: bytes) -> None:
    seen = _Output()
    for start in range(len(text)):
        seen.add_errors(text[start : start + 1])


def _rule_settings(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, FILE).write_text(text, errors="replace")
        configured(None, Path(folder), Context())


def _data(text: str) -> None:
    """Judge a ConfigMap and a Secret with a text, and a document with a text in base64."""
    embedded._parse_content.cache_clear()
    metadata = {"name": "a", "namespace": "team"}
    for kind, key in (("ConfigMap", "config.yaml"), ("Secret", "NVIDIA_VISIBLE_DEVICES")):
        made = {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {key: text}}
        evaluate(made, _POOLED)
    judged(f"kind: Pod\na: !!binary {json.dumps(text)}\n")


def _taints(text: str) -> None:
    recorded_taints({"metadata": {"name": "gpu-1", "annotations": {RECORD: text}}})


def _recorded_taint(number: int) -> dict[str, str]:
    return {"key": f"k{number}", "effect": "NoSchedule"}


def _causes(value: Any) -> None:
    pods = value.pop("pods")
    parts: dict[str, Any] = {name: tuple(part) for name, part in value.items()}
    around = Around(pods=tuple(pods), **parts)
    value["pods"] = pods
    str(cause_of(pods[0], around))
    newest_first(value["events"])


RULE_SETTINGS = {
    "rules": {"GPU001": "off"},
    "pools": [
        {
            "name": "a",
            "gpusPerNode": 8,
            "nodeNames": ["n"],
            "taints": ["a=b:NoSchedule"],
            "labels": {"a": "b"},
        }
    ],
    "resourceNames": ["example.com/gpu"],
    "exemptions": [
        {
            "rules": ["GPU001"],
            "until": "2027-01-01",
            "reason": "x",
            "images": ["a*"],
            "labels": {"a": "b"},
        }
    ],
}
_UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
}
_AMOUNT = {"requests.nvidia.com/gpu": "1"}
AROUND = {
    "pods": [{**_pod(0), "status": {"phase": "Pending", "conditions": [_UNSCHEDULABLE]}}],
    "events": [
        {
            "metadata": {"namespace": "team"},
            "reason": "FailedScheduling",
            "message": "0/1 nodes",
            "involvedObject": {"kind": "Pod", "name": "p0", "namespace": "team"},
        }
    ],
    "nodes": [
        {
            "metadata": {"name": "n", "labels": {"a": "b"}},
            "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"nvidia.com/gpu": "8"}},
        }
    ],
    "quotas": [{"metadata": {"name": "q"}, "status": {"hard": _AMOUNT, "used": _AMOUNT}}],
    "slices": [
        {
            "spec": {
                "driver": "gpu.nvidia.com",
                "nodeName": "n",
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}],
            }
        }
    ],
}
"""Pod that can't be scheduled, and what the API server returns about it."""
MESSAGE = {"create": "true", "environment": {"A": "b"}, "triggers": ["x"]}
PAGE = {"metadata": {"continue": ""}, "items": [_pod(0)]}

READERS: Mapping[str, Reader] = {
    **dict(_targets()),
    "stack": Reader(_stack, STACKS, (ConfigError,)),
    "manifests": Reader(judged, MANIFESTS),
    "objects of a stack": Reader(
        lambda objects: evaluate_together(objects, _POOLED),
        {name: partial(_subjects, mix) for name, mix in _MIXES.items()},
    ),
    "parts of an object": Reader(
        lambda manifest: evaluate(manifest, _POOLED),
        {"pod": _with_many, "exemptions": _exempted, "annotations": _assigned},
    ),
    "reports": Reader(_write_report, FOUND),
    "patches": Reader(_patched, PATCHES),
    "objects of a kustomization": Reader(_origins, {"objects": _built}),
    "nodes for settings": Reader(of_nodes, {"nodes": lambda n: _rows(n, _node)}),
    "kustomization": Reader(_kustomization, KUSTOMIZATIONS),
    "glob": Reader(lambda pair: is_match(*pair), {"stars": _globs}),
    "paths of fields": Reader(location, texts()),
    "API answer": Reader(_answer, grown(PAGE), (ClusterError,)),
    "plugin message": Reader(
        _message, {key: partial(_serialized, shape) for key, shape in grown(MESSAGE).items()}
    ),
    "packets of a host": Reader(_packets, {"packets": lambda number: b"a" * number}),
    "settings of rules": Reader(
        _rule_settings,
        {
            **texts(),
            **{key: partial(_written, shape) for key, shape in grown(RULE_SETTINGS).items()},
        },
        (ContextError,),
    ),
    "causes": Reader(
        _causes, {key: shape for key, shape in grown(AROUND).items() if key != "all grows"}
    ),
    "names": Reader(lambda names: runs(names), {"names": lambda n: _rows(n, "n{}".format)}),
    "data of objects": Reader(_data, texts()),
    "recorded taints": Reader(
        _taints,
        {**texts(), "taints": partial(_written, lambda n: _rows(n, _recorded_taint))},
        (IllFormed,),
    ),
    "who": Reader(command_readers._who, command_readers.WHO),
    "adopt": Reader(command_readers._adopt, command_readers.ADOPTED),
    "why": Reader(command_readers._why, command_readers.WHY, (FaultError,)),
    "losses": Reader(inspection_readers.lose, inspection_readers.LOSSES, (ClusterError,)),
    "refused pods": Reader(
        inspection_readers.refused, inspection_readers.CONTROLLERS, (ClusterError,)
    ),
    "surroundings": Reader(
        inspection_readers.surround, inspection_readers.SURROUNDINGS, (ClusterError,)
    ),
    "validated nodes": Reader(
        inspection_readers.validated, inspection_readers.VALIDATED, (ClusterError,)
    ),
    "disruption budgets": Reader(
        inspection_readers.budgeted, inspection_readers.BUDGETED, (ClusterError,)
    ),
    "labels of nodes": Reader(
        inspection_readers.labelled, inspection_readers.LABELLED, (ClusterError,)
    ),
    "fields of a release": Reader(inspection_readers.edited, inspection_readers.FIELDS),
    "settings of the last run": Reader(inspection_readers.compared, inspection_readers.SETTINGS),
    "manifest of a network": Reader(inspection_readers.network, texts(), (pulumi.RunError,)),
    "running pods": Reader(command_readers._refused, command_readers.RUNNING),
    "notes of a pull request": Reader(
        command_readers._commented, dict(command_readers.notes(PIECES)), (ForgeError,)
    ),
    "pull requests": Reader(command_readers._requests, command_readers.REQUESTS, (ForgeError,)),
    "index of charts": Reader(
        command_readers._index, command_readers.indices(texts()), (ValueError,)
    ),
    "index of packages": Reader(command_readers._packages, command_readers.packages(texts())),
    "registry of charts": Reader(
        command_readers._registry, command_readers.manifests(texts(), _written)
    ),
    "report of an earlier check": Reader(
        command_readers._known, command_readers.reports(texts(), _written), (ContextError,)
    ),
}
"""All readers, by name."""
