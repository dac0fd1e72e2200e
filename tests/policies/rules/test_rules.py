# ruff: noqa: E501  a table reads best one case a line
"""Each rule by its examples, and by tables of manifests that pass, that fail and that are unknown."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from gpu_rules import reference
from gpu_rules.rules import EXAMPLES, RULES, UNKNOWN, Context, NodeTaint, PoolFacts, Rule, Severity
from gpu_rules.rules.links import anchor
from gpu_rules.rules.pod_spec import resource_list
from tests.policies.rules.cases import PRODUCTS
from tests.policies.rules.messages import judge

GPU = "nvidia.com/gpu"
CORE, MEMORY = "tencent.com/vcuda-core", "tencent.com/vcuda-memory"
TAINT = NodeTaint(GPU, "present")
POOLS = (
    PoolFacts("a100", 8, (TAINT,), {"gpu": "a100"}),
    PoolFacts("t4", 2, (TAINT,), {"gpu": "t4"}),
)
CONTEXT = Context(pools=POOLS, resource_names=PRODUCTS)
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}


def container(limits: Any = None, requests: Any = None, **fields: Any) -> dict[str, Any]:
    given = {"limits": limits, "requests": requests}
    resources = {key: value for key, value in given.items() if value is not None}
    return {"name": "cuda", "image": "cuda", "resources": resources, **fields}


def pod(*containers: Any, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train"},
        "spec": {"tolerations": [TOLERATION], "containers": list(containers), **spec},
    }


BESIDE = {"GPU032", "GPU048", "GPU049", "GPU050", "GPU051", "GPU060"}
"""Ids of rules that the short manifests here break; test_workloads.py and others test the rules."""


def ids(manifest: Any, context: Context = CONTEXT, **options: Any) -> list[str]:
    rules = [violation.rule.id for violation in judge(manifest, context, **options)]
    return [rule_id for rule_id in rules if rule_id not in BESIDE]


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_passing_example_breaks_nothing(rule: Rule) -> None:
    shown = EXAMPLES[rule.id]
    assert reference.violations(yaml.safe_load(shown.passing), reference.context_for(shown)) == []


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_failing_example_breaks_this_rule_and_no_other(rule: Rule) -> None:
    shown = EXAMPLES[rule.id]
    violations = reference.violations(yaml.safe_load(shown.failing), reference.context_for(shown))
    assert [violation.rule.id for violation in violations] == [rule.id]
    assert violations[0].severity is rule.severity_in(reference.context_for(shown))
    for part in (rule.id, rule.title, violations[0].path, violations[0].found, violations[0].cure):
        assert part in violations[0].message


def test_the_reference_is_what_the_rules_say() -> None:
    assert reference.PAGE.read_text() == reference.page(), "run `python -m gpu_rules.reference`"


def test_each_rule_has_one_anchor_in_the_reference() -> None:
    anchors = re.findall(r'^<a id="(\w+)"></a>$', reference.page(), re.MULTILINE)
    assert anchors == [anchor(id_) for id_ in RULES]


NAMED_ALIKE = (
    *("not-nvidia.com/gpu", "my-nvidia.com/gpu", "india.com/gpu", "tencentcloud.com/vcuda-core"),
    *("nvidia.com/GA102GL_A10", "habana.ai/gaudi"),
)
TABLE: list[tuple[str, dict[str, Any], list[str]]] = [
    ("limit alone", pod(container({GPU: 1})), []),
    ("no GPUs at all", pod(container()), []),
    ("whole in milli", pod(container({GPU: "2000m"})), []),
    ("rounded up to one", pod(container({GPU: "0.9999999"})), []),
    ("octal look", pod(container({GPU: "08"})), []),
    ("half in words", pod(container({GPU: 0.5})), ["GPU001"]),
    ("float of one", pod(container({GPU: 1.0})), []),
    ("request of another form, same value", pod(container({GPU: 1}, {GPU: "1000m"})), []),
    ("negative half", pod(container({GPU: "-500m"})), ["GPU001", "GPU008"]),
    ("a boolean", pod(container({GPU: True})), ["GPU009"]),
    ("a list", pod(container({GPU: [1]})), ["GPU009"]),
    ("null is zero", pod(container({GPU: None})), []),
    ("unknown limit", pod(container({GPU: UNKNOWN})), []),
    ("unknown limit, request given", pod(container({GPU: UNKNOWN}, {GPU: 1})), []),
    ("unknown limits, request given", pod(container(UNKNOWN, {GPU: 1})), []),
    ("unknown request without limit", pod(container({}, {GPU: UNKNOWN})), ["GPU003"]),
    ("unknown cpu, bad limit", pod(container({"cpu": UNKNOWN, GPU: "500m"})), ["GPU001"]),
    ("unknown image, bad limit", pod(container({GPU: "1500m"}, image=UNKNOWN)), ["GPU001"]),
    ("cpu may be fractional and unequal", pod(container({"cpu": 2}, {"cpu": "1500m"})), []),
    ("other devices too", pod(container(None, {"rdma/hca": 1})), ["GPU003"]),
    ("request alone, half", pod(container(None, {GPU: "500m"})), ["GPU001", "GPU003"]),
    ("alpha name", pod(container({"alpha.kubernetes.io/nvidia-gpu": 1})), ["GPU014"]),
    ("upper case", pod(container({"nvidia.com/GPU": 1})), ["GPU014"]),
    ("misspelt domain", pod(container({"nvida.com/gpu": 1})), ["GPU014"]),
    ("quota name in a container", pod(container({"limits.nvidia.com/gpu": 1})), ["GPU014"]),
    ("two letters off", pod(container({"nvdia.co/gpu": 1})), ["GPU014"]),
    *((f"a name of its own, {name}", pod(container({name: 1})), []) for name in NAMED_ALIKE),
    ("bare name", pod(container({"gpu": 1})), ["GPU014", "GPU027"]),
    ("MIG is well known", pod(container({"nvidia.com/mig-1g.10gb": 1})), []),
    ("another vendor's", pod(container({"example.com/gpu-mem": 1})), []),
    ("toleration by value", pod(container({GPU: 1}), tolerations=[{"key": GPU, "value": "present"}]), []),
    ("toleration of another value", pod(container({GPU: 1}), tolerations=[{"key": GPU}]), ["GPU004"]),
    ("toleration of everything", pod(container({GPU: 1}), tolerations=[{"operator": "Exists"}]), []),
    ("toleration of NoExecute only", pod(container({GPU: 1}), tolerations=[{**TOLERATION, "effect": "NoExecute"}]), ["GPU004"]),
    ("unknown tolerations", pod(container({GPU: 1}), tolerations=UNKNOWN), []),
    ("one unknown toleration", pod(container({GPU: 1}), tolerations=[UNKNOWN]), []),
    ("toleration with unknown key", pod(container({GPU: 1}), tolerations=[{"key": UNKNOWN, "operator": "Exists"}]), []),
    ("zero GPUs need no toleration", pod(container({GPU: 0}), tolerations=[]), []),
    ("eight of eight", pod(container({GPU: 8})), []),
    ("four and five", pod(container({GPU: 4}), container({GPU: 5})), ["GPU007"]),
    ("small pool selected", pod(container({GPU: 3}), nodeSelector={"gpu": "t4"}), ["GPU007"]),
    ("selector of an unknown label", pod(container({GPU: 8}), nodeSelector={"zone": "a"}), []),
    ("selector of an unknown value", pod(container({GPU: 8}), nodeSelector={"gpu": UNKNOWN}), []),
    ("known part too large", pod(container({GPU: 9}), container({GPU: UNKNOWN})), ["GPU007"]),
    ("init beside", pod(container({GPU: 8}), initContainers=[container({GPU: 8})]), []),
    (
        "sidecar added",
        pod(container({GPU: 8}), initContainers=[container({GPU: 1}, restartPolicy="Always")]),
        ["GPU007"],
    ),
    (
        "sidecar after a large init",
        pod(
            container({GPU: 1}),
            initContainers=[container({GPU: 8}), container({GPU: 1}, restartPolicy="Always")],
        ),
        [],
    ),
    (
        "sidecar before a large init",
        pod(
            container({GPU: 1}),
            initContainers=[container({GPU: 1}, restartPolicy="Always"), container({GPU: 8})],
        ),
        ["GPU007"],
    ),
    (
        "two sidecars added",
        pod(container({GPU: 7}), initContainers=[container({GPU: 1}, restartPolicy="Always")] * 2),
        ["GPU007"],
    ),
    (
        "two sidecars before a large init",
        pod(
            container({GPU: 1}),
            initContainers=[
                *[container({GPU: 1}, restartPolicy="Always")] * 2,
                container({GPU: 7}),
            ],
        ),
        ["GPU007"],
    ),
    ("overhead added", pod(container({GPU: 8}), overhead={GPU: 1}), ["GPU007"]),
    ("99 with memory", pod(container({CORE: 99, MEMORY: 1})), []),
    ("100 needs no memory", pod(container({CORE: 100})), []),
    ("101", pod(container({CORE: 101})), ["GPU005"]),
    ("199", pod(container({CORE: 199})), ["GPU005"]),
    ("800 is eight GPUs", pod(container({CORE: 800})), []),
    ("900 is nine", pod(container({CORE: 900})), ["GPU007"]),
    ("no cores", pod(container({CORE: 0, MEMORY: 1})), ["GPU018"]),
    ("none at all", pod(container({CORE: 0})), []),
    ("no memory for a part", pod(container({CORE: 99, MEMORY: 0})), ["GPU006"]),
    ("unknown memory", pod(container({CORE: 50, MEMORY: UNKNOWN})), []),
    ("memory in another container", pod(container({CORE: 50}), container({CORE: 50, MEMORY: 1})), ["GPU006"]),
    ("void", pod(container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}])), []),
    ("empty, which is void", pod(container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": ""}])), []),
    ("without a value", pod(container(env=[{"name": "NVIDIA_VISIBLE_DEVICES"}])), []),
    ("by a prefix", pod(container(envFrom=[{"prefix": "NVIDIA_", "configMapRef": {"name": "a"}}])), ["GPU017"]),
    ("by a short prefix", pod(container(envFrom=[{"configMapRef": {"name": "a"}}, {"prefix": "N", "secretRef": {"name": "a"}}])), ["GPU017"]),
    ("by a prefix that leads elsewhere", pod(container(envFrom=[{"prefix": "NV_", "configMapRef": {"name": "a"}}])), []),
    ("by a prefix that is not known", pod(container(envFrom=[{"prefix": UNKNOWN}, UNKNOWN])), []),
    ("by a second variable", pod(container(env=[{"name": "A", "value": "all"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])), ["GPU017"]),
    ("from elsewhere", pod(container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {}}])), ["GPU017"]),
    ("unknown value", pod(container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": UNKNOWN}])), []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("manifest", "wanted"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_table(manifest: dict[str, Any], wanted: list[str]) -> None:
    assert ids(manifest) == wanted


BAD_TEMPLATE = {"spec": {"containers": [container({GPU: "500m"})], "tolerations": [TOLERATION]}}
TEMPLATES: dict[str, dict[str, Any]] = {
    "v1/PodTemplate": {"template": BAD_TEMPLATE},
    "v1/ReplicationController": {"spec": {"template": BAD_TEMPLATE}},
    "apps/v1/Deployment": {"spec": {"template": BAD_TEMPLATE, "strategy": {"type": "Recreate"}}},
    "apps/v1/ReplicaSet": {"spec": {"template": BAD_TEMPLATE}},
    "apps/v1/StatefulSet": {"spec": {"template": BAD_TEMPLATE}},
    "batch/v1/Job": {"spec": {"template": BAD_TEMPLATE}},
    "batch/v1/CronJob": {"spec": {"jobTemplate": {"spec": {"template": BAD_TEMPLATE}}}},
}


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_bad_pod_is_found_in_every_kind_that_holds_one(kind: str) -> None:
    api_version, _, name = kind.rpartition("/")
    assert ids({"apiVersion": api_version, "kind": name, **TEMPLATES[kind]}) == ["GPU001"]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_bad_pod_is_found_where_its_kind_holds_it(kind: str) -> None:
    api_version, _, name = kind.rpartition("/")
    place = {"PodTemplate": "template", "CronJob": "spec.jobTemplate.spec.template"}
    (violation,) = (
        violation.path
        for violation in judge(
            {"apiVersion": api_version, "kind": name, **TEMPLATES[kind]}, CONTEXT
        )
        if violation.rule.id == "GPU001"
    )
    inside = f"spec.containers[0].resources.limits[{GPU}]"
    assert violation == f"{place.get(name, 'spec.template')}.{inside}"


def test_a_container_without_a_name_is_told_by_its_number() -> None:
    unnamed = {"resources": {"limits": {GPU: "500m"}}}
    manifest = pod(unnamed, unnamed, initContainers=[{**unnamed, "restartPolicy": "Always"}])
    containers = [
        violation.container
        for violation in judge(manifest, CONTEXT)
        if violation.rule.id == "GPU001"
    ]
    assert containers == ["#0", "#0", "#1"]


@pytest.mark.parametrize("path", ["", "spec.overhead"])
def test_a_resource_lies_under_the_path_of_its_list(path: str) -> None:
    given = (path,) if path else ()
    assert resource_list({GPU: 1}, *given)[GPU].path == f"{path}[{GPU}]"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("x" * 20, f"'{'x' * 20}' is not a quantity"),
        ("x" * 21, "str of 21 characters"),
        (["x" * 20], "list is not a quantity"),
        (["x"], "list is not a quantity"),
    ],
)
def test_a_short_value_that_is_no_quantity_is_shown(value: Any, found: str) -> None:
    (violation,) = (
        violation
        for violation in judge(pod(container({GPU: value})), CONTEXT)
        if violation.rule.id == "GPU009"
    )
    assert violation.found == f"a value that is not a quantity ({found})"


@pytest.mark.parametrize(
    ("name", "refused"),
    [("cpu", False), ("hugepages-2Mi", False), (GPU, True), (CORE, True), ("rdma/hca", True)],
)
@pytest.mark.parametrize("part", ["limits", "requests"])
def test_the_pod_itself_asks_for_no_devices(part: str, name: str, refused: bool) -> None:
    manifest = pod(container(), resources={part: {name: 1}})
    paths = [
        violation.path for violation in judge(manifest, CONTEXT) if violation.rule.id == "GPU010"
    ]
    assert paths == ([f"spec.resources.{part}[{name}]"] if refused else [])


@pytest.mark.parametrize(("name", "shown"), [("cpu", "cpu"), ("a" * 100, "a" * 80)])
def test_a_resource_of_an_ephemeral_container_is_named(name: str, shown: str) -> None:
    manifest = pod(container(), ephemeralContainers=[container({name: 1})])
    (violation,) = (
        violation for violation in judge(manifest, CONTEXT) if violation.rule.id == "GPU011"
    )
    assert violation.found == f"{shown} in an ephemeral container"


def test_a_daemon_set_is_judged_too() -> None:
    manifest = {"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": {"template": BAD_TEMPLATE}}
    assert ids(manifest) == ["GPU001", "GPU024"]


def test_the_same_kind_of_another_group_is_judged_by_its_pods() -> None:
    manifest = {"apiVersion": "batch.example.com/v1", "kind": "Job", **TEMPLATES["batch/v1/Job"]}
    assert ids(manifest) == ["GPU001"]


def test_each_item_of_a_list_is_judged_by_its_place() -> None:
    good, bad = pod(container({GPU: 1})), pod(container({GPU: "500m"}))
    violations = judge({"apiVersion": "v1", "kind": "List", "items": [good, bad]}, CONTEXT)
    (violation,) = (violation for violation in violations if violation.rule.id == "GPU001")
    assert violation.path.startswith("items[1].spec.containers[0].")


def test_a_typed_list_gives_its_kind_to_its_items() -> None:
    bad = {key: value for key, value in pod(container({GPU: "500m"})).items() if key != "kind"}
    assert ids({"apiVersion": "v1", "kind": "PodList", "items": [bad]}) == ["GPU001"]


def test_a_list_of_any_kind_gives_nothing_to_its_items() -> None:
    bad = {"kind": "StatefulSet", "spec": {"template": pod(container({GPU: "500m"}))}}
    assert ids({"apiVersion": "v1", "kind": "List", "items": [bad]}) == ["GPU001"]


def test_a_patch_is_not_blamed_for_what_it_leaves_out() -> None:
    manifest = pod(container({CORE: 50}), tolerations=[])
    assert ids(manifest) == ["GPU004", "GPU006"]
    assert ids(manifest, partial=True) == []


def test_without_pools_nothing_is_said_about_them() -> None:
    assert ids(pod(container({GPU: 99}), tolerations=[]), Context()) == []


def test_a_rule_can_be_turned_off_and_lowered() -> None:
    manifest = pod(container({GPU: "500m"}, {GPU: 1}))
    context = Context(severities={"GPU001": Severity.OFF, "GPU002": Severity.ADVISORY})
    rules = {v.rule.id: v.severity for v in judge(manifest, context)}
    assert "GPU001" not in rules
    assert rules["GPU002"] is Severity.ADVISORY


def test_the_admission_plugin_adds_the_toleration_of_the_resource() -> None:
    manifest = pod(container({GPU: 1}), tolerations=[])
    assert ids(manifest, Context(pools=POOLS, extended_resource_toleration=True)) == []


def test_a_renamed_resource_is_a_gpu_where_the_cluster_advertises_it() -> None:
    manifest = pod(container({"nvidia.com/gpus": 1}), tolerations=[])
    context = Context(pools=POOLS, resource_names=frozenset({"nvidia.com/gpus"}))
    assert ids(manifest, context) == ["GPU004"]


def test_the_gpu_stack_itself_may_see_all_devices() -> None:
    manifest = pod(container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]))
    assert ids(manifest) == ["GPU017"]
    manifest["metadata"]["namespace"] = "kube-system"
    assert ids(manifest) == []
    manifest["metadata"]["namespace"] = UNKNOWN
    assert ids(manifest) == []


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        *((value, []) for value in ("1", "9", "50", "100", "050", "0" * 10 + "50", UNKNOWN)),
        *((value, ["GPU025"]) for value in ("", "0", "101", "0" * 20, "1000000050", "0000000500")),
        *(
            (value, ["GPU025"])
            for value in ("1.0", "-1", "1 ", "1\n", "x50", "\u0663", 50, "9" * 5000)
        ),
    ],
)
def test_the_annotation_that_limits_cores(value: Any, wanted: list[str]) -> None:
    manifest = pod(container())
    manifest["metadata"]["annotations"] = {"tencent.com/vcuda-core-limit": value}
    assert ids(manifest) == wanted


LIMITS: list[tuple[dict[str, Any], list[str]]] = [
    ({"type": "Container", "max": {GPU: 8}, "default": {GPU: "0"}}, []),
    ({"type": "Container", "default": {GPU: 1}}, ["GPU012"]),
    ({"type": "Container", "defaultRequest": {GPU: 1}}, ["GPU012"]),
    ({"type": "Container", "min": {GPU: 1}}, ["GPU012"]),
    ({"type": "Container", "default": {GPU: "1m"}}, ["GPU012"]),
    ({"type": "Container", "max": UNKNOWN}, []),
    ({"type": "Container", "max": {GPU: 8}, "default": UNKNOWN}, []),
    ({"type": "Pod", "max": {GPU: 8}}, ["GPU012"]),
    ({"type": "Pod", "min": {GPU: 1}}, ["GPU012"]),
    ({"type": "Pod", "max": {"cpu": 8}}, []),
    ({"type": UNKNOWN, "max": {GPU: 8}}, []),
]


@pytest.mark.parametrize(("item", "wanted"), LIMITS)
def test_limit_range(item: dict[str, Any], wanted: list[str]) -> None:
    manifest = {"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": [item]}}
    assert ids(manifest) == wanted
    unknown = {"type": "Container", "max": UNKNOWN}
    behind = {"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": [unknown, item]}}
    assert ids(behind) == wanted


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("requests.nvidia.com/gpu", []),
        ("nvidia.com/gpu", ["GPU013"]),
        ("limits.nvidia.com/mig-1g.10gb", ["GPU013"]),
        ("limits.nvidia.com/gpumem", []),
        ("limits.cpu", []),
    ],
)
def test_quota(key: str, wanted: list[str]) -> None:
    manifest = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {key: 4}}}
    assert ids(manifest) == wanted
