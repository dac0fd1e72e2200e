"""A running pod breaks no mandatory rule that the manifest of its author does not break.

The specs are those of the rules' examples, in a pod of each kind of workload.
"""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_rules.parameters import context_by
from gpu_rules.rules import EXAMPLES, Context, NodeTaint, PoolFacts, Severity, evaluate
from gpu_rules.rules.observed import as_submitted
from gpu_rules.rules.registry import evaluate_stack, items
from tests.policies.check import system
from tests.policies.check.running import check

_TAINTS = (NodeTaint("nvidia.com/gpu", "present"),)
_NAMES = frozenset({system.NODE})
_POOL = PoolFacts("a100", 8, _TAINTS, {"gpu": "a100"}, nodes=1, node_names=_NAMES)
CONTEXTS: dict[str, Context] = {
    "no settings": Context(),
    "pools": Context(pools=(_POOL,), platform="device-plugin", runtime_class="nvidia"),
    "pools of nodes that may be unreachable": Context(
        pools=(replace(_POOL, taints=(*_TAINTS, NodeTaint("node.kubernetes.io/unreachable"))),)
    ),
    "gpu-manager": Context(pools=(_POOL,), platform="gpu-manager"),
    "hami": Context(pools=(_POOL,), platform="hami", max_gpus_per_pod=4),
    "namespaces with agents": Context(
        pools=(_POOL,), infrastructure_namespaces=frozenset({"kube-system", "agents"})
    ),
    "an injected toleration": Context(pools=(_POOL,), extended_resource_toleration=True),
}


def _example_pods() -> Mapping[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Return the pod specs in the examples of the rules, each with metadata and settings."""
    pods: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {}
    for id_, example in EXAMPLES.items():
        for which in ("passing", "failing"):
            for manifest in yaml.safe_load_all(getattr(example, which)):
                for place, found in items(manifest or {}):
                    item: Any = found
                    if item.get("kind") == "Pod" and item.get("apiVersion") == "v1":
                        key = f"{id_} {which} {place}".strip()
                        settings = dict(example.settings)
                        pods[key] = (item["spec"], item["metadata"], settings)
    return pods


PODS = _example_pods()


def _example_objects() -> Iterator[Any]:
    for example in EXAMPLES.values():
        for text in (example.passing, example.failing):
            for manifest in yaml.safe_load_all(text):
                for _, item in items(manifest or {}):
                    if isinstance(item.get("metadata"), dict):
                        yield item


def mandatory(manifest: Any, context: Context) -> set[str]:
    found = [*evaluate(manifest, context), *evaluate_stack([manifest], context)]
    return {each.rule.id for each in found if each.severity is Severity.MANDATORY}


def is_sound(spec: Any) -> bool:
    """Return whether a spec has the types from which an API server makes a pod."""
    containers = spec.get("containers")
    return isinstance(containers, list) and all("name" in each for each in containers)


@pytest.mark.promise(
    "A running pod breaks no mandatory rule that the manifest of its author does not break."
)
@pytest.mark.parametrize("owner", ["", *sorted(system.OWNERS)])
@pytest.mark.parametrize("name", sorted(CONTEXTS))
def test_the_system_breaks_no_rule(owner: str, name: str) -> None:
    judged = 0
    for key, (spec, metadata, settings) in PODS.items():
        if not is_sound(spec):
            continue
        context = context_by(settings, CONTEXTS[name])
        own = mandatory(system.written(owner, spec, metadata), context)
        injected = context.extended_resource_toleration
        running = system.observed(owner, spec, metadata, tolerates=injected)
        seen = replace(context, observed=True)
        assert mandatory(running, seen) <= own, key
        if owner:
            assert mandatory(system.workload(owner, spec, metadata), seen) <= own, key
        judged += 1
    assert judged > 50


@pytest.mark.parametrize("owner", ["", *sorted(system.OWNERS)])
def test_what_the_author_wrote_is_still_found(owner: str) -> None:
    """The proof above isn't empty: observed pods of failing examples break mandatory rules."""
    broken = set()
    for key, (spec, metadata, settings) in PODS.items():
        if is_sound(spec) and " failing" in key:
            context = replace(context_by(settings, CONTEXTS["pools"]), observed=True)
            broken |= mandatory(system.observed(owner, spec, metadata), context)
    assert broken >= {"GPU004", "GPU007", "GPU017", "GPU022", "GPU036", "GPU067"}


@pytest.mark.parametrize("owner", sorted(system.OWNERS))
@pytest.mark.parametrize("form", ["standard input", "json", "yaml"])
def test_a_list_of_running_pods_is_judged_as_observed(
    owner: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, metadata, _ = PODS["GPU004 passing"]
    printed = system.listed(system.observed(owner, spec, metadata), system.observed("", spec, {}))
    if form == "standard input":
        stdin = io.TextIOWrapper(io.BytesIO(json.dumps(printed).encode()))
        monkeypatch.setattr("sys.stdin", stdin)
        run = check("-", "--format", "json", rules=())
    else:
        file = tmp_path / f"pods.{form}"
        file.write_text(json.dumps(printed) if form == "json" else yaml.safe_dump(printed))
        run = check(str(file), "--observed", "--format", "json", rules=())
        assert "GPU016" in check(str(file), rules=()).output
    report = json.loads(run.output)
    levels = {each["severity"] for each in report["violations"]}
    assert (run.code, "mandatory" in levels, report["summary"]["objects"]) == (0, False, 2)


MARKS: dict[str, dict[str, Any]] = {
    "a uid": {"uid": system.UID},
    "metadata of a server": dict(system.STORED),
    "an owner": {
        **system.STORED,
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "name": "agent",
                "uid": system.UID,
                "controller": True,
            }
        ],
    },
    "managed fields": {**system.STORED, "managedFields": [{"manager": "kubelet"}]},
}


@pytest.mark.promise("In a file of a repository, a uid, an owner and a status change no verdict.")
@pytest.mark.parametrize("mark", sorted(MARKS))
def test_in_a_file_the_marks_of_a_server_change_nothing(mark: str, tmp_path: Path) -> None:
    plain, marked = tmp_path / "plain.json", tmp_path / "marked.json"
    objects: list[Any] = [
        {**item, "metadata": {**item["metadata"], "name": f"example-{number}"}}
        for number, item in enumerate(_example_objects())
    ]
    copies = copy.deepcopy(objects)
    for each in copies:
        each["metadata"] |= MARKS[mark]
        each["status"] = {"phase": "Running", "conditions": [{"type": "PodScheduled"}]}
    plain.write_text(json.dumps(system.listed(*objects)))
    marked.write_text(json.dumps(system.listed(*copies)))

    def found(file: Path, *options: str) -> list[tuple[str, ...]]:
        run = check(str(file), "--format", "json", *options, rules=())
        keys = ("rule", "severity", "subject", "container", "path", "found")
        return [tuple(each[key] for key in keys) for each in json.loads(run.output)["violations"]]

    assert found(marked) == found(plain)
    assert len(found(plain)) > 40
    assert [each[0] for each in found(marked, "--observed")].count("GPU016") < [
        each[0] for each in found(plain)
    ].count("GPU016")


def test_only_what_the_system_wrote_is_left_out() -> None:
    spec, metadata, _ = PODS["GPU004 passing"]
    pod = system.observed("DaemonSet", spec, metadata)
    submitted: Any = as_submitted(pod)
    left = {key for key in pod["spec"] if key not in submitted["spec"]}
    assert left == {"nodeName"}
    assert "status" not in submitted
    assert spec["tolerations"][0] in submitted["spec"]["tolerations"]
