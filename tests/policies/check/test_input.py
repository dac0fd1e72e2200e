"""Whatever a file contains, the checker ends with a clear message and without a traceback."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gpu_rules.check.document import Source, judge
from gpu_rules.check.parse import documents
from gpu_rules.check.stream import decode, split
from gpu_rules.check.template import is_manifest, is_template
from gpu_rules.faults import InputError
from gpu_rules.rules import Context, NodeTaint, PoolFacts
from tests.fixtures.programs import run_program
from tests.policies.check.malformed import FILES, MEBI
from tests.policies.check.running import ROOT, check

CONTEXT = Context(
    pools=(PoolFacts("a", 8, (NodeTaint("nvidia.com/gpu"),)),), platform="device-plugin"
)


def test_there_are_a_hundred_that_cannot_be_read() -> None:
    assert sum(bool(file.says) for file in FILES.values()) >= 100


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_judged_or_the_reason_is_told_with_its_line(name: str, tmp_path: Path) -> None:
    file, path = FILES[name], tmp_path / f"{name}.yaml"
    path.write_bytes(file.content)
    done = check(str(path), "--format", "json")
    report = json.loads(done.output)
    if not file.says:
        assert (done.code, report["problems"], report["violations"]) == (0, [], [])
        return
    assert done.code == 2
    (problem,) = report["problems"]
    assert file.says in problem["message"]
    assert (problem["file"], problem["line"]) == (str(path), file.line)
    assert len(problem["message"]) < 400


def test_a_list_of_more_than_eight_mebibytes_is_judged_as_its_items_are(tmp_path: Path) -> None:
    container = {"name": "c", "image": "a", "resources": {"limits": {"nvidia.com/gpu": "1500m"}}}
    pods = [
        {
            "apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]},
            "metadata": {"name": f"p{number}", "annotations": {"a": "x" * 9_000}},
        }
        for number in range(1_000)
    ]  # fmt: skip
    whole, single = tmp_path / "whole.json", tmp_path / "single.json"
    whole.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}, indent=1))
    single.write_text("\n".join(json.dumps(pod, indent=1) for pod in pods))
    assert whole.stat().st_size > 8 * MEBI
    found = [json.loads(check(str(path), "--format", "json").output) for path in (whole, single)]
    subjects = [[each["subject"] for each in report["violations"]] for report in found]
    assert subjects[0] == subjects[1]
    assert len(set(subjects[0])) == 1_000
    lines = whole.read_text().splitlines()
    for violation in found[0]["violations"]:
        assert '"nvidia.com/gpu": "1500m"' in lines[violation["line"] - 1]


def test_all_of_them_at_once_end_without_a_traceback(tmp_path: Path) -> None:
    for name, file in FILES.items():
        (tmp_path / f"{name}.yaml").write_bytes(file.content)
    done = run_program(
        [sys.executable, "-m", "gpu_rules.check", str(tmp_path)], cwd=ROOT, timeout=120
    )
    assert (done.returncode, done.stderr) == (2, "")
    for name, file in FILES.items():
        # If a folder is checked, templates and files that are not manifests are left out.
        text = file.content.decode(errors="replace").replace("\0", "")
        is_read = is_manifest(text) and not is_template(text)
        assert (f"/{name}.yaml:" in done.stdout) == (bool(file.says) and is_read), name


def test_a_broken_document_leaves_the_others_to_be_judged(tmp_path: Path) -> None:
    good = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
    bad = good + "    - {name: c, resources: {limits: {nvidia.com/gpu: 500m}}}\n"
    path = tmp_path / "all.yaml"
    path.write_text(f"# first\n{bad}---\na: [\n---\n---\n{bad}")
    report = json.loads(check(str(path), "--format", "json").output)
    (problem,) = report["problems"]
    assert (problem["document"], problem["line"]) == (2, 9)
    assert [(violation["document"], violation["line"]) for violation in report["violations"]] == [
        (1, 7),
        (3, 17),
    ]


@pytest.mark.parametrize(("value", "read"), [("8", False), ("true", False), ("'8'", True)])
def test_a_pod_template_of_a_custom_kind_selects_nodes_by_texts(
    tmp_path: Path, value: str, read: bool
) -> None:
    # GoogleCloudPlatform/kubernetes-engine-samples ai-ml/verl-on-gke/ray-cluster-auto.yaml
    (tmp_path / "ray.yaml").write_text(
        "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: a}\nspec:\n"
        "  headGroupSpec:\n    template:\n      spec:\n        containers: [{image: 'a:1'}]\n"
        f"        nodeSelector: {{count: {value}}}\n"
    )
    done = check(str(tmp_path))
    assert done.code == (0 if read else 2)
    assert ("ray.yaml:9: unreadable" in done.output) == (not read)


def _judge_text(text: str) -> None:
    for part in split(text):
        for judged in judge(Source("f", part), CONTEXT):
            for problem in judged.problems:
                assert problem.message
            for violation in judged.found:
                assert 1 <= violation.line <= text.count("\n") + 1


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_judged_or_refused(content: bytes) -> None:
    with contextlib.suppress(InputError):
        _judge_text(decode(content))


PIECES = [
    "apiVersion: v1", "kind: Pod", "kind: List", "spec:", "  containers:", "  - ", "name: c",
    "resources: {limits: ", "nvidia.com/gpu: 1.5", "items: ", "- {kind: Pod, spec: {a: b}}",
    "---", "...", "&a ", "*a", "<<: *a", "? ", ": ", "!!int ", "!x ", "'", '"', "\t", "  ", "[",
    "}", "]", "{", "%YAML 1.1", "#", "|", ">", "~", "\n", "\r\n", "\n\n", "\u2028", "\ufeff",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=25), st.sampled_from(["", "\n", " "]))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(["%YAML 1.1", "\n", "---", "\n", "kind: Pod"], "")
def test_any_pieces_of_yaml_are_judged_or_refused(parts: list[str], between: str) -> None:
    _judge_text(between.join(parts))


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
KEYS = st.sampled_from(
    ["spec", "containers", "env", "metadata", "name", "limits", "resources", "items"]
)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            KEYS | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(
    st.sampled_from(["v1", "apps/v1", "batch/v1", "example.com/v1", ""]),
    st.sampled_from(["Pod", "Deployment", "Job", "CronJob", "LimitRange", "List", "Widget"]),
    st.dictionaries(st.sampled_from(["spec", "metadata", "items"]), TREES),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_types_are_judged_or_refused(version: str, kind: str, body: dict[str, Any]) -> None:
    text = yaml.safe_dump({**body, "apiVersion": version, "kind": kind})
    _judge_text(text)


@given(
    st.sampled_from(["example.com/v1", "kueue.x-k8s.io/v1beta1", "v1"]),
    st.sampled_from(["Widget", "PodX", "ConfigMap", "Service"]),
    TREES,
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_unknown_kinds_pass_untouched(version: str, kind: str, spec: object) -> None:
    text = yaml.safe_dump({"apiVersion": version, "kind": kind, "spec": spec})
    (part,) = split(text)
    (judged,) = judge(Source("f", part), CONTEXT)
    assert (judged.found, judged.problems) == ((), ())


JSON_TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=6), JSON_TREES, max_size=3))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_json_is_read_as_it_was_written(document: dict[str, Any]) -> None:
    assert documents(json.dumps(document)) == [document]
