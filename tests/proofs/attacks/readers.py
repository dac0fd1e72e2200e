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
from typing import Any

import httpx
from command_provider import inputs as plugin_inputs
from pulumi.runtime.proto import provider_pb2

from gpu_cluster import property_values
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes.causes.cause import Around
from gpu_cluster.nodes.causes.events import newest_first
from gpu_cluster.nodes.causes.pod import cause_of
from gpu_cluster.nodes.gpu_holders import list_pods
from gpu_cluster.settings.nodes.node_range import runs
from gpu_cluster.ssh.client import _Output
from gpu_rules.check import kustomization
from gpu_rules.check.context import FILE, ContextError, configured
from gpu_rules.check.document import Source, judge
from gpu_rules.check.lines import location
from gpu_rules.check.stream import split
from gpu_rules.faults import ConfigError
from gpu_rules.rules import Context
from gpu_rules.rules.exemptions import is_match
from tests.fixtures.api import client
from tests.proofs.attacks import fuzz, samples
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
        number = 8
        while self.seconds(shape(number)) < LEAST_SECONDS:
            if (number := number * 2) > LARGEST:
                return []
        steps = self._steps(shape, number)
        for doubled in range(1, LARGER + 1):
            if not steps or not steps[-1] <= CERTAIN:
                break
            steps = self._steps(shape, number << doubled)
        return steps

    def _steps(self, shape: Shape, number: int) -> list[float]:
        """Return the steps from an input of a size; empty if none is larger than `MOST`.

        The time of a call is the least of up to `TIMES` measurements, or of three that are certain.
        """
        least = [inf] * 4
        for measured in range(1, TIMES + 1):
            for step in range(4):
                value = shape(number << step)
                least[step] = min(least[step], self.seconds(value))
            ratios = [after / max(before, LEAST_SECONDS) for before, after in pairwise(least)]
            if max(ratios) <= MOST or least[-1] < LEAST_SECONDS:
                return []
            if measured >= 3 and not ratios[-1] <= CERTAIN:
                break
        return [round(ratio, 1) for ratio in ratios]


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


def _causes(value: Any) -> None:
    pods = value.pop("pods")
    around = Around(pods=tuple(pods), **{name: tuple(part) for name, part in value.items()})
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
}
"""All readers, by name."""
