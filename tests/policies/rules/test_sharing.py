# ruff: noqa: E501  a table reads best one case a line
"""The rules for shared GPUs: the device plugin's configuration file and the advertised names."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_rules.rules import UNKNOWN, Context, Mig, PluginFacts, Sharing
from tests.policies.rules.cases import (
    CONTEXT,
    GPU,
    MIG,
    POOL,
    SHARED,
    container,
    ids,
    paths,
    pod,
    resource,
)
from tests.policies.rules.messages import judge

SHARING: list[tuple[str, dict[str, Any], PluginFacts | None, list[str]]] = [
    ("unknown plugin", {MIG: 1}, None, []),
    ("no sharing", {GPU: 1}, PluginFacts(), []),
    ("no sharing, shared name", {SHARED: 1}, PluginFacts(), ["GPU043"]),
    ("no sharing, 0 of the shared name", {SHARED: 0, GPU: 1}, PluginFacts(), []),
    ("no MIG, 0 by name", {MIG: "0", GPU: 1}, PluginFacts(), []),
    ("no MIG, 0 and 1 by name", {MIG: 1, f"{MIG}.me": 0}, PluginFacts(), ["GPU044"]),
    ("shared, not renamed", {GPU: 1}, PluginFacts(sharing=Sharing.MPS), []),
    ("shared, not renamed, two", {GPU: 2}, PluginFacts(sharing=Sharing.MPS), ["GPU023"]),
    ("not shared, two", {GPU: 2}, PluginFacts(), []),
    ("shared name, not renamed", {SHARED: 1}, PluginFacts(sharing=Sharing.MPS), ["GPU043"]),
    ("renamed", {SHARED: 1}, PluginFacts(sharing=Sharing.TIME_SLICING, renamed=True), []),
    (
        "renamed, old name",
        {GPU: 1},
        PluginFacts(sharing=Sharing.TIME_SLICING, renamed=True),
        ["GPU043"],
    ),
    (
        "renamed, two",
        {SHARED: 2},
        PluginFacts(sharing=Sharing.TIME_SLICING, renamed=True),
        ["GPU023"],
    ),
    ("renamed without sharing", {GPU: 1}, PluginFacts(renamed=True), []),
    ("MIG by name", {MIG: 1}, PluginFacts(mig=Mig.MIXED), []),
    ("MIG not by name", {MIG: 1}, PluginFacts(mig=Mig.SINGLE), ["GPU044"]),
    ("no MIG", {MIG: 1}, PluginFacts(), ["GPU044"]),
    ("two MIG devices", {MIG: 2}, PluginFacts(mig=Mig.MIXED), ["GPU045"]),
    (
        "two kinds of them",
        {MIG: 1, "nvidia.com/mig-2g.20gb": 1},
        PluginFacts(mig=Mig.MIXED),
        ["GPU045"],
    ),
    ("an unknown number", {MIG: UNKNOWN}, PluginFacts(mig=Mig.MIXED), []),
]


@pytest.mark.parametrize(
    ("limits", "plugin", "wanted"), [r[1:] for r in SHARING], ids=[r[0] for r in SHARING]
)
def test_the_names_that_a_plugin_advertises(limits: Any, plugin: Any, wanted: list[str]) -> None:
    assert ids(pod(container(limits)), Context(pools=(POOL,), plugin=plugin)) == wanted


def test_several_gpus_of_hami_are_no_shares_of_one() -> None:
    plugin = PluginFacts(sharing=Sharing.TIME_SLICING, replicas=10)
    context = Context(pools=(POOL,), platform="hami", plugin=plugin)
    assert ids(pod(container({GPU: 2})), context) == []


def test_what_has_no_pod_asks_for_no_name() -> None:
    assert ids(resource("ConfigMap"), Context(plugin=PluginFacts())) == []


def test_a_name_that_the_cluster_advertises_needs_no_strategy() -> None:
    context = Context(plugin=PluginFacts(), resource_names=frozenset({MIG}))
    assert ids(pod(container({MIG: 1})), context) == []


FILE = "version: v1\nsharing:\n  timeSlicing:\n    {more}\n    resources: [{{name: nvidia.com/gpu, replicas: 4}}]\n"
WEAK = FILE.format(more="renameByDefault: false")
STRICT = FILE.format(more="failRequestsGreaterThanOne: true")
NO = FILE.format(more="failRequestsGreaterThanOne: false")


@pytest.mark.parametrize(
    ("content", "refused"),
    [
        (WEAK, True),
        (NO, True),
        (STRICT, False),
        ("version: v1\nflags: {migStrategy: none}\n", False),
        (
            "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n",
            False,
        ),
        (WEAK.replace("version: v1", "version: v2"), False),
        (WEAK.replace("[{name: nvidia.com/gpu, replicas: 4}]", "[]"), False),
        (WEAK + "# " + "x" * 65536, False),
        ("a: &a [1]\nb: *a\n" + WEAK, False),
        ("[" * 40 + "]" * 40, False),
        ("---\na: 1\n---\nb: 2\n", False),
        (": not: yaml: [", False),
        ("just text", False),
        (7, False),
        (UNKNOWN, False),
    ],
)
def test_the_plugins_file(content: Any, refused: bool) -> None:
    key = "sharing.timeSlicing.failRequestsGreaterThanOne"
    wanted = [f"data[config].{key}"] if refused else []
    assert paths("GPU042", resource("ConfigMap", data={"config": content})) == wanted
    assert paths("GPU042", resource("Secret", data={"config": content})) == []
    other = resource("ConfigMap", "example.com/v1", data={"config": content})
    assert paths("GPU042", other) == []


@pytest.mark.parametrize(
    ("content", "shown"), [(NO, "false"), (WEAK, "no value, which means false")]
)
def test_what_the_plugins_file_says_of_several_shares(content: str, shown: str) -> None:
    (violation,) = judge(resource("ConfigMap", data={"config": content}), CONTEXT)
    assert violation.found == shown
