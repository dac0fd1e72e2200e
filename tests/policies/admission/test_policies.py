"""The admission policies on a real API server: CEL types and cost, updates, opt-outs, modes."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from gpu_rules.admission import OPT_OUT, Enforcement
from gpu_rules.rules import Context, Severity, cel, evaluate
from lab.benchmarks.api_server import ApiServer, await_true, make_namespace
from tests.policies.admission import cluster
from tests.policies.admission.cluster import (
    EVERYTHING,
    GOOD,
    GPU,
    TOLERATION,
    WARN,
    Answer,
    apply,
    container,
    create,
    edit,
    install,
    only,
    pod,
    read,
)

CONTEXT = Context(pools=EVERYTHING.pools, platform="device-plugin")
DENY = Enforcement({Severity.MANDATORY: ["Deny", "Audit"], Severity.ADVISORY: ["Warn", "Audit"]})
AUDIT = Enforcement({Severity.MANDATORY: ["Audit"], Severity.ADVISORY: ["Audit"]})
LABELS = {"app": "a"}

Json = dict[str, Any]


def deployment(namespace: str, *containers: Json, **spec: Any) -> Json:
    template = {"metadata": {"labels": LABELS}, "spec": pod(namespace, *containers)["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "serve", "namespace": namespace},
        "spec": {
            "replicas": 0,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": LABELS},
            "template": template,
            **spec,
        },
    }


def quota(namespace: str, **hard: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": namespace},
        "spec": {"hard": hard},
    }


# GPU007 rejects this container: no node has 9 GPUs.
BAD = container({GPU: 9})


def type_checked(api: httpx.Client, policy: Json) -> list[Json]:
    """Wait for the type check of a policy's CEL expressions, and return its warnings."""

    def checked() -> bool:
        result = read(api, policy)
        seen = result.get("status", {}).get("observedGeneration")
        return bool(seen == result["metadata"]["generation"])

    # A busy machine takes minutes for the policies from `spelt_out`.
    await_true(f"types of {policy['metadata']['name']} checked", checked, seconds=300)
    warnings: list[Json] = read(api, policy)["status"]["typeChecking"].get("expressionWarnings", [])
    return warnings


POLICIES = cluster.policies(WARN)
WITH_VARIABLES = [policy for policy in POLICIES if "variables" in policy["spec"]]


USED = re.compile(r"\bvariables\.(\w+)")
MOST = 20_000
"""Characters of the expressions of one policy; the API server compiles them in one request."""


def with_needed(name: str, variables: Mapping[str, str]) -> str:
    """Return a variable's expression in which all variables that it needs are bound, each once."""
    needed: set[str] = set()
    open_ = [name]
    while open_:
        used = set(USED.findall(variables[open_.pop()])) - needed
        needed |= used
        open_ += used
    expression = USED.sub(r"v_\1", variables[name])
    # A variable uses only variables that stand before it.
    for other in reversed([each for each in variables if each in needed]):
        value = USED.sub(r"v_\1", variables[other])
        expression = cel.bound(f"v_{other}", value, expression)
    return expression


def spelt_out(policy: Json) -> list[Json]:
    """Return policies that have each variable's expression as a validation, for the type check.

    The API server checks the types only in validations, where a variable may have any type
    (k8s.io/apiserver v0.34.4 pkg/admission/plugin/policy/validating/typechecking.go Check).
    """
    result = copy.deepcopy(policy)
    # The audit annotations use variables, and the copy of the policy has none.
    del result["spec"]["auditAnnotations"]
    variables = {each["name"]: each["expression"] for each in result["spec"].pop("variables")}
    variables["facts"] = '{"": ""}'  # A short map of the same type.
    # The expression of `violations` would contain the expressions of all other variables.
    del variables["violations"]
    expressions = [with_needed(name, variables) for name in variables]
    parts: list[list[str]] = [[]]
    for expression in expressions:
        if parts[-1] and sum(map(len, parts[-1])) + len(expression) > MOST:
            parts.append([])
        parts[-1].append(expression)
    policies = []
    for number, part in enumerate(parts):
        made = copy.deepcopy(result)
        made["metadata"]["name"] += f"-spelt-out-{number}"
        made["spec"]["validations"] = [{"expression": f"size([{text}]) == 1"} for text in part]
        policies.append(made)
    return policies


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy["metadata"]["name"])
def test_the_type_check_has_no_warning(type_checking: httpx.Client, policy: Json) -> None:
    checked = copy.deepcopy(policy)
    checked["metadata"]["name"] += "-checked"
    apply(type_checking, checked)
    try:
        assert type_checked(type_checking, checked) == []
    finally:
        cluster.delete(type_checking, checked)


@pytest.mark.full
@pytest.mark.parametrize("policy", WITH_VARIABLES, ids=lambda policy: policy["metadata"]["name"])
def test_the_types_of_variables_fit_too(type_checking: httpx.Client, policy: Json) -> None:
    for checked in spelt_out(policy):
        apply(type_checking, checked)
        try:
            assert type_checked(type_checking, checked) == []
        finally:
            cluster.delete(type_checking, checked)


@pytest.mark.full
def test_the_type_check_sees_a_field_that_is_not_there(type_checking: httpx.Client) -> None:
    wrong = copy.deepcopy(POLICIES[0])
    variables = {each["name"]: each["expression"] for each in wrong["spec"]["variables"]}
    assert variables["spec"] == "object.spec"
    # The check of few variables takes little time.
    few = {"facts": variables["facts"], "spec": "object.specification", "violations": "[]"}
    wrong["spec"]["variables"] = [{"name": key, "expression": few[key]} for key in few]
    (wrong,) = spelt_out(wrong)
    apply(type_checking, wrong)
    try:
        assert "undefined field 'specification'" in str(type_checked(type_checking, wrong))
    finally:
        cluster.delete(type_checking, wrong)


def large(broken: bool) -> Json:
    """Return a pod with 100 containers, 100 init containers and many fields in each of them."""
    env = [{"name": f"N{index}", "value": "none"} for index in range(20)]
    many = {GPU: 0, "tencent.com/vcuda-core": 100, "rdma/hca": 1, "nvidia.com/mig-1g.10gb": 1}
    apps = [container(many, env=env) | {"name": f"app-{index}"} for index in range(100)]
    init = [container(many, env=env) | {"name": f"init-{index}"} for index in range(100)]
    for init_container in init[::2]:
        init_container["restartPolicy"] = "Always"
    if broken:
        apps[-1]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
        apps[-1]["resources"] = {"limits": {"tencent.com/vcuda-core": 150}}
    tolerations = [{"key": f"key-{index}", "operator": "Exists"} for index in range(50)]
    selector = {f"label-{index}": "x" for index in range(50)}
    made = pod("plugin", *apps, initContainers=init, nodeSelector=selector)
    made["spec"]["tolerations"] = [*tolerations, TOLERATION]
    return made


def as_deployment(made: Json) -> Json:
    result = deployment("plugin")
    result["spec"]["template"]["spec"] = made["spec"]
    return result


@pytest.mark.parametrize("broken", [False, True], ids=["kept", "broken"])
@pytest.mark.parametrize("form", [lambda made: made, as_deployment], ids=["pod", "deployment"])
def test_a_pod_of_two_hundred_containers_is_judged_within_the_cost_limits(
    api: httpx.Client, form: Any, broken: bool
) -> None:
    manifest = form(large(broken))
    said = create(api, manifest)
    assert said.taken, said.text
    assert "exceed" not in said.text
    assert "failed expression" not in said.text.lower()
    wanted = {violation.rule.id for violation in evaluate(manifest, EVERYTHING)}
    assert {"GPU005", "GPU017"} <= wanted if broken else "GPU005" not in wanted
    assert said.rules == wanted & cluster.TWINS


def test_what_breaks_a_mandatory_rule_is_refused_and_told_why(api: httpx.Client) -> None:
    install(api, "deny", CONTEXT, DENY)
    said = create(api, pod("deny", GOOD, container({GPU: 9}) | {"name": "greedy"}))
    assert (said.status, said.rules) == (403, {"GPU007"})
    assert "found 10 nvidia.com/gpu in one pod; wanted: at most 8" in said.text
    assert create(api, pod("deny", GOOD)).text.strip() == ""
    for manifest, rule in (
        (deployment("deny", BAD), "GPU007"),
        (quota("deny", **{f"limits.{GPU}": 4}), "GPU013"),
        (
            {
                "apiVersion": "v1",
                "kind": "LimitRange",
                "metadata": {"name": "a", "namespace": "deny"},
                "spec": {"limits": [{"type": "Container", "max": {GPU: 8}}]},
            },
            "GPU012",
        ),
    ):
        said = create(api, manifest)
        assert (said.status, said.rules) == (403, {rule}), said.text


def test_what_breaks_an_advisory_rule_is_taken_with_a_warning(api: httpx.Client) -> None:
    install(api, "advice", CONTEXT, DENY)
    said = create(api, pod("advice", container({GPU: 1}, image="cuda:latest")))
    assert (said.status, said.rules) == (201, {"GPU051"})
    assert "container cuda: found an image without a fixed version" in said.text


def test_audit_says_nothing_to_who_creates(api: httpx.Client) -> None:
    make_namespace(api, "audited")
    for manifest in only("audited", CONTEXT, AUDIT, {"kubernetes.io/metadata.name": "audited"}):
        apply(api, manifest)
    assert create(api, pod("audited", BAD)).text.strip() == ""


def test_objects_from_before_stay_editable_where_the_rules_do_not_read(api: httpx.Client) -> None:
    space = "before"
    make_namespace(api, space)
    old_pod, old, old_quota = pod(space, BAD), deployment(space, BAD), quota(space, **{GPU: 1})
    for manifest in (old_pod, old, old_quota):
        assert create(api, manifest, dry=False).taken
    install(api, space, CONTEXT, DENY)

    def label(live: Json) -> None:
        live["metadata"]["labels"] = {"edited": "true"}

    def scale(live: Json) -> None:
        live["spec"]["replicas"] = 3

    def new_image(live: Json) -> None:
        live["spec"]["template"]["spec"]["containers"][0]["image"] = "cuda:2"

    def repair(live: Json) -> None:
        live["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {GPU: "1"}

    def more(live: Json) -> None:
        live["spec"]["hard"] = {GPU: "2"}

    for manifest in (old_pod, old, old_quota):
        assert edit(api, manifest, label).taken
    assert edit(api, old, scale).taken
    said = edit(api, old, new_image)
    assert (said.status, said.rules) == (403, {"GPU007"})
    assert edit(api, old, repair).taken
    assert edit(api, old, new_image).taken
    assert edit(api, old_quota, more).rules == {"GPU013"}


def test_an_ephemeral_container_is_judged_when_it_is_added(api: httpx.Client) -> None:
    space = "debug"
    make_namespace(api, space)
    forced = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    running = pod(space, container({GPU: 1}, env=forced))
    assert create(api, running, dry=False).taken
    install(api, space, CONTEXT, DENY)

    def debug(**fields: Any) -> Answer:
        shell = {"name": "shell", "image": "busybox", "targetContainerName": "cuda", **fields}

        def add(live: Json) -> None:
            live["spec"]["ephemeralContainers"] = [shell]

        return edit(api, running, add, subresource="/ephemeralcontainers")

    said = debug(env=forced)
    assert (said.status, said.rules) == (403, {"GPU017"})
    said = debug(securityContext={"privileged": True})
    assert (said.status, said.rules) == (403, {"GPU022"})
    assert debug().taken


def test_a_namespace_is_left_alone_by_label_and_by_name(api: httpx.Client) -> None:
    how = dataclasses.replace(DENY, excluded=("out-by-name",))
    for name, labels in (("out-by-label", {OPT_OUT: "exempt"}), ("out-by-name", {}), ("in", {})):
        make_namespace(api, name, {"team": "out", **labels})
    for manifest in only("out", CONTEXT, how, {"team": "out"}):
        apply(api, manifest)
    await_true("judged", lambda: create(api, pod("in", BAD)).status == 403)
    assert create(api, pod("out-by-label", BAD)).text.strip() == ""
    assert create(api, pod("out-by-name", BAD)).text.strip() == ""


@pytest.mark.promise(
    "Policies that were removed and come again judge as before, on the same API server."
)
def test_policies_that_come_again_judge_as_before(alone: ApiServer) -> None:
    """If the policies used a ConfigMap, the API server would deny everything after a reinstall."""
    api, space = alone.client, "again"
    make_namespace(api, space)
    made = only(space, CONTEXT, DENY, {"kubernetes.io/metadata.name": space})
    for _ in range(2):
        for manifest in made:
            apply(api, manifest)
        await_true("policies in force", lambda: create(api, pod(space, BAD)).status == 403)
        assert create(api, pod(space, BAD)).rules == {"GPU007"}
        await_true("a good pod is taken", lambda: create(api, pod(space, GOOD)).taken)
        for manifest in reversed(made):
            cluster.delete(api, manifest)
        await_true("policies gone", lambda: create(api, pod(space, BAD)).text.strip() == "")
