# ruff: noqa: E501  a table reads best one case a line
"""The functions that read manifests for the rules: values, secrets, files, charts and exemptions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest

from gpu_rules.rules import UNKNOWN, Context, NodeTaint, Severity, registry
from gpu_rules.rules.embedded import embedded
from gpu_rules.rules.exemptions import Exemption, exemptions
from gpu_rules.rules.helm import ChartRelease, releases
from gpu_rules.rules.host_paths import host_paths
from gpu_rules.rules.rule import Subject
from gpu_rules.rules.secret import is_secret, reveal
from gpu_rules.rules.unknown import at, holds_unknown, mapping, sequence
from tests.policies.rules.cases import pod, release
from tests.policies.rules.messages import judge


def test_what_is_not_known_is_neither_true_nor_false() -> None:
    with pytest.raises(TypeError) as error:
        bool(UNKNOWN)
    assert str(error.value) == "UNKNOWN has no truth value: compare it with `is UNKNOWN`"
    assert repr(UNKNOWN) == "UNKNOWN"


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({"a": 1}, {"a": 1}),
        ({7: 1, "a": 2}, {"a": 2}),
        (MappingProxyType({7: 1, "a": 2}), {"a": 2}),
        ([("a", 1)], {}),
        (None, {}),
        (UNKNOWN, {}),
    ],
)
def test_a_mapping_is_read_by_its_texts(value: Any, read: Mapping[str, object]) -> None:
    assert mapping(value) == read


def test_a_mapping_of_texts_is_not_copied() -> None:
    value = {"a": 1, "b": 2}
    assert mapping(value) is value


@pytest.mark.parametrize(
    ("value", "read"),
    [([1], [1]), ((1,), (1,)), ("ab", ()), (b"ab", ()), ({"a": 1}, ()), (None, ()), (UNKNOWN, ())],
)
def test_a_list_is_read_and_nothing_else(value: Any, read: Any) -> None:
    assert sequence(value) == read


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ({"a": {"b": 1}}, 1),
        (MappingProxyType({"a": {"b": 1}}), 1),
        ({"a": MappingProxyType({"b": 1})}, 1),
        ({"a": {}}, None),
        ({"a": [1]}, None),
        ({"a": "b"}, None),
        (None, None),
        ({"a": UNKNOWN}, UNKNOWN),
        ({"a": {"b": UNKNOWN}}, UNKNOWN),
        (UNKNOWN, UNKNOWN),
    ],
)
def test_a_value_under_a_path(value: Any, wanted: Any) -> None:
    result = at(value, "a", "b")
    assert result is wanted or result == wanted


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (UNKNOWN, True),
        ([1, UNKNOWN], True),
        ({"a": UNKNOWN}, True),
        ([[UNKNOWN]], False),
        ([1], False),
        ({"a": 1}, False),
        (None, False),
    ],
)
def test_unknown_values_are_seen_directly_in_a_value(value: Any, wanted: bool) -> None:
    assert holds_unknown(value) is wanted


SECRETS: list[tuple[Any, bool, Any]] = [
    ({"fn::secret": "x"}, True, "x"),
    ({"fn::secret": {"fn::secret": "x"}}, True, "x"),
    ({"fn::secret": UNKNOWN}, True, UNKNOWN),
    ({"secret": "x"}, False, {"secret": "x"}),
    ("x", False, "x"),
    (UNKNOWN, False, UNKNOWN),
]


@pytest.mark.parametrize(("value", "secret", "revealed"), SECRETS)
def test_a_secret_is_known_by_its_mark(value: Any, secret: bool, revealed: Any) -> None:
    assert is_secret(value) is secret
    assert reveal(value) == revealed


MOST = 64 * 1024


def lists(depth: int) -> str:
    return "[" * depth + "]" * depth


FILES: list[tuple[str, Any, list[str]]] = [
    # Columns: name, value, keys that are read.
    ("a text", "a: 1", ["a"]),
    ("a mapping", {"a": 1}, ["a"]),
    ("the longest", "a: 1 #".ljust(MOST, "#"), ["a"]),
    ("one longer", "a: 1 #".ljust(MOST + 1, "#"), []),
    ("the deepest", f"a: {lists(31)}", ["a"]),
    ("one deeper", f"a: {lists(32)}", []),
    ("as deep twice", f"a: {lists(31)}\nb: {lists(31)}", ["a", "b"]),
    ("aliases", "a: &a 1\nb: *a", []),
    ("a list", "[1]", []),
    ("no YAML", "a: [", []),
    ("a day that is none", "a: 2026-02-30", []),
    ("no text", 7, []),
    ("unknown", UNKNOWN, []),
]


@pytest.mark.parametrize(("value", "keys"), [r[1:] for r in FILES], ids=[r[0] for r in FILES])
def test_a_file_in_a_text_is_read_within_limits(value: Any, keys: list[str]) -> None:
    assert list(embedded(value)) == keys


def in_lists(depth: int, manifest: dict[str, Any]) -> dict[str, Any]:
    for _ in range(depth):
        manifest = {"kind": "List", "items": [manifest]}
    return manifest


ITEM = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
ITEMS: list[tuple[str, dict[str, Any], list[tuple[str, dict[str, Any]]]]] = [
    ("no list", ITEM, [("", ITEM)]),
    (
        "items of another kind",
        {**ITEM, "items": [{}]},
        [("", {**ITEM, "items": [{}]}), ("items[0].", {})],
    ),
    ("a kind that ends like a list", {"kind": "AllowList"}, [("", {"kind": "AllowList"})]),
    ("a list", in_lists(1, ITEM), [("items[0].", ITEM)]),
    ("of two", {"kind": "List", "items": [{}, ITEM]}, [("items[0].", {}), ("items[1].", ITEM)]),
    ("of nothing", {"kind": "List", "items": []}, []),
    (
        "a typed list",
        {"apiVersion": "apps/v1", "kind": "DeploymentList", "items": [{"spec": {}}]},
        [("items[0].", {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {}})],
    ),
    (
        "a typed list of typed items",
        {"apiVersion": "v1", "kind": "PodList", "items": [{"apiVersion": "v2", "kind": "Job"}]},
        [("items[0].", {"apiVersion": "v2", "kind": "Job"})],
    ),
    ("deeper than any call may go", in_lists(5000, ITEM), [("items[0]." * 5000, ITEM)]),
]


@pytest.mark.parametrize(("manifest", "wanted"), [r[1:] for r in ITEMS], ids=[r[0] for r in ITEMS])
def test_the_manifests_of_a_list(manifest: Any, wanted: list[tuple[str, Any]]) -> None:
    assert list(registry.items(manifest)) == wanted


def test_the_rules_that_apply_are_found_once_for_a_context() -> None:
    context, other = Context(), Context()
    rules = registry._applicable_rules(context, partial=False)
    assert registry._applicable_rules(context, partial=False) is rules
    assert registry._applicable_rules(other, partial=False) is not rules
    assert registry._applicable_rules(other, partial=True) != rules


def charted(chart: Any, **fields: Any) -> ChartRelease | None:
    given = release(**{"chart": chart, "repositoryOpts": None, **fields})
    return next(releases(Subject.of(given)), None)


REPOSITORY = {"repositoryOpts": {"repo": "https://charts.example.com"}}
CHARTS: list[tuple[str, dict[str, Any], str, bool]] = [
    # Columns: chart as declared, further inputs, name of the chart, whether the chart is local.
    ("hami", {}, "hami", False),
    ("hami", REPOSITORY, "hami", False),
    ("Xhami", {}, "Xhami", False),
    ("nvidia/gpu-operator", {}, "gpu-operator", False),
    ("oci://example.com/charts/hami", {}, "hami", False),
    ("oci://example.com/charts/hami-1.0.tgz", {}, "hami", False),
    ("./charts/hami", {}, "hami", True),
    ("./charts/hami", REPOSITORY, "hami", False),
    ("./charts/hami", {"repositoryOpts": UNKNOWN}, "hami", False),
    ("./charts/hami", {"repositoryOpts": {"repo": UNKNOWN}}, "hami", False),
    ("./charts/hami", {"repositoryOpts": {}}, "hami", True),
    ("./charts/X/", {}, "X", True),
    ("/charts/hami", {}, "hami", True),
    ("~/hami//", {}, "hami", True),
    ("hami.tgz", {}, "hami", True),
    ("hami.tgz", REPOSITORY, "hami", False),
    ("gpu-operator.tgz", {}, "gpu-operator", True),
    ("hami-X1.tgz", {}, "hami-X1", True),
    ("gpu-operator-v26.7.0.tgz", {}, "gpu-operator", True),
    ("charts/gpu-operator-2.7.0.tgz", {}, "gpu-operator", True),
    ("./hami-2.7.0", {}, "hami-2.7.0", True),
    ("", {}, "", False),
]


@pytest.mark.parametrize(("chart", "fields", "name", "local"), CHARTS)
def test_the_chart_of_a_release(chart: str, fields: Any, name: str, local: bool) -> None:
    chart_read = charted(chart, values={"a": 1}, **fields)
    assert chart_read == ChartRelease(name, "v26.7.0", local, {"a": 1})


@pytest.mark.parametrize(
    ("version", "read"), [("1", "1"), ("", ""), (None, ""), (7, ""), (UNKNOWN, None)]
)
def test_the_version_of_a_chart(version: Any, read: str | None) -> None:
    assert charted("hami", version=version) == ChartRelease("hami", read, False, {})


PATHS = [
    ("/data", "/data"),
    ("/data/", "/data"),
    ("//data//x", "/data/x"),
    ("../data", "/../data"),
    ("/Xdata", "/Xdata"),
    ("/a/./../data", "/a/../data"),  # `a` may be a link.
    ("/../data", "/../data"),
    ("data", "/data"),
    ("../data", "/../data"),
    (".", "/"),
    ("/", "/"),
    ("//", "/"),
]


@pytest.mark.parametrize(("path", "read"), PATHS)
def test_a_path_of_the_host_is_read_from_its_root(path: str, read: str) -> None:
    subject = Subject.of(pod(volumes=[{"emptyDir": {}}, {"hostPath": {"path": path}}]))
    assert subject.pod is not None
    assert list(host_paths(subject.pod)) == [(1, read)]


def exemption(key: str, value: Any, today: date | None = date(2026, 6, 15)) -> Exemption:
    manifest = pod()
    manifest["metadata"]["annotations"] = {f"exempt.gpu-cluster/{key}": value}
    (exempted,) = exemptions(Subject.of(manifest), Context(today=today), {"GPU001"}.__contains__)
    return exempted


NOTHING = ("", "")
EXEMPTIONS: list[tuple[str, str, tuple[str, str], str]] = [
    # Columns: rule, annotation, its date and reason, what is wrong with it.
    ("GPU001", "2026-06-15 a", ("2026-06-15", "a"), ""),
    ("GPU001", " 2026-12-31\n a\tb ", ("2026-12-31", "a b"), ""),
    ("GPU001", "2026-06-14 a", ("2026-06-14", "a"), "ended on 2026-06-14"),
    ("GPU001", "2026-02-30 a", ("2026-02-30", "a"), "ends on 2026-02-30, which isn't a date"),
    ("GPU001", "2026-12-31", NOTHING, "has no end date, or no reason"),
    ("GPU001", "a", NOTHING, "has no end date, or no reason"),
    ("GPU002", "2026-12-31 a", ("2026-12-31", "a"), "names no rule that can be turned off"),
    ("GPU002", "a", NOTHING, "names no rule that can be turned off"),
]


@pytest.mark.parametrize(("rule", "value", "read", "problem"), EXEMPTIONS)
def test_an_exemption_is_read(rule: str, value: str, read: tuple[str, str], problem: str) -> None:
    key = f"exempt.gpu-cluster/{rule}"
    assert exemption(rule, value) == Exemption(rule, *read, problem, key)


LINT = "ignore-check.kube-linter.io/"
SKIPS: list[tuple[str, str, list[tuple[str, str, str]]]] = [
    # Columns: annotation, its value, and rule, reason and problem of the exemption.
    (f"{LINT}GPU001", " a\n b ", [("GPU001", "a b", "")]),
    (f"{LINT}GPU001", " ", [("GPU001", "", "has no reason")]),
    (f"{LINT}GPU002", "a", [("GPU002", "a", "names no rule that can be turned off")]),
    (f"{LINT}run-as-non-root", "a", []),
    ("kube-linter.io/ignore-all", "GPU001", []),
    ("checkov.io/skip1", "GPU001=a=b", [("GPU001", "a=b", "")]),
    ("bridgecrew.io/skip", " GPU001 =a", [("GPU001", "a", "")]),
    ("checkov.io/skip12", "GPU001", [("GPU001", "", "has no reason")]),
    ("checkov.io/skip1", "CKV_K8S_20=a", []),
    ("checkov.io/skip1x", "GPU001=a", []),
]


@pytest.mark.parametrize(("key", "value", "wanted"), SKIPS)
def test_an_annotation_of_another_linter_exempts_from_the_rule_that_it_names(
    key: str, value: str, wanted: list[tuple[str, str, str]]
) -> None:
    manifest = pod()
    manifest["metadata"]["annotations"] = {key: value}
    found = exemptions(Subject.of(manifest), Context(), {"GPU001"}.__contains__)
    assert list(found) == [Exemption(rule, "", why, problem, key) for rule, why, problem in wanted]


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [(f"{LINT}GPU022", "profiler", "[exempt by profiler]"), (f"{LINT}GPU022", "", None)],
)
def test_a_rule_that_another_linters_annotation_names_with_a_reason_is_advice(
    key: str, value: str, text: str | None
) -> None:
    limits = {"limits": {"nvidia.com/gpu": 1}}
    manifest = pod({"name": "a", "resources": limits, "securityContext": {"privileged": True}})
    manifest["metadata"]["annotations"] = {key: value}
    found = {each.rule.id: each for each in judge(manifest, Context())}
    broken = found["GPU022"]
    assert broken.message.endswith(text or broken.cure)
    assert (broken.severity is Severity.ADVISORY) == (text is not None)
    assert ("GPU062" in found) == (text is None)


@pytest.mark.parametrize("zone", ["<+14>-14", "UTC", "<-12>12"])
def test_an_exemption_ends_by_the_day_of_utc(zone: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        today = datetime.now(UTC).date()
        last = exemption("GPU001", f"{today} its last day", None)
        over = exemption("GPU001", f"{today - timedelta(days=1)} over", None)
    time.tzset()
    assert (last.problem, over.problem) == ("", f"ended on {over.until}")


@pytest.mark.parametrize(
    ("taint", "written"),
    [
        (NodeTaint("a"), "a:NoSchedule"),
        (NodeTaint("a", "b"), "a=b:NoSchedule"),
        (NodeTaint("a", "", "NoExecute"), "a:NoExecute"),
    ],
)
def test_a_taint_is_written_as_kubectl_writes_it(taint: NodeTaint, written: str) -> None:
    assert str(taint) == written
