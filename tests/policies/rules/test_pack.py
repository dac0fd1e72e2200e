"""The policy pack reads the engine's inputs, including unknown values, and reports by severity."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pulumi_policy.policy as sdk
import pytest
import yaml
from pulumi_policy import PolicyResourceOptions, ResourceValidationArgs
from pulumi_policy.deserialize import SPECIAL_SECRET_SIG, SPECIAL_SIG_KEY
from pulumi_policy.policy import (
    PolicyResource,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, unknown_checking_proxy

from gpu_cluster.guardrails.stacks import context_of_document, context_of_stack
from gpu_rules import pack, settings
from gpu_rules.admission import Enforcement, manifests
from gpu_rules.parameters import IGNORED_PATHS, PROPERTIES, RULE_FOLDER
from gpu_rules.rules import RULES, UNKNOWN, Severity
from tests.fixtures.documents import stack_document

GPU = "nvidia.com/gpu"
CLUSTER = stack_document(
    context="none", pools=[{"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": 4}]
)


GUARDED = CLUSTER | {
    "guardrails": {
        "mode": "enforce",
        "maxGpusPerPod": 4,
        "rules": {"GPU050": "mandatory", "GPU049": "off"},
        "infrastructureNamespaces": ["monitoring"],
        "resourceNames": ["example.com/npu"],
        "runtimeClasses": ["kata"],
        "otherClaims": ["odd"],
        "allowedHostPaths": ["/scratch"],
        "exemptions": [{"rules": ["GPU051"], "until": "2030-12-31", "reason": "why"}],
    }
}
"""A stack whose guardrails differ from the defaults."""

SETTINGS: dict[str, tuple[str, Any]] = {
    "allowedHostPaths": ("allowed_host_paths", ["/nvme/*"]),
    "exemptions": (
        "exemptions",
        [{"rules": ["GPU001"], "until": "2100-01-01", "reason": "a test"}],
    ),
    "extendedResourceToleration": ("extended_resource_toleration", True),
    "infrastructureNamespaces": ("infrastructure_namespaces", ["other"]),
    "maxGpusPerContainer": ("max_gpus_per_container", 3),
    "maxGpusPerPod": ("max_gpus_per_pod", 3),
    "otherClaims": ("other_claims", ["disk"]),
    "platform": ("platform", "gpu-manager"),
    "plugin": ("plugin", {"replicas": 2, "sharing": "time-slicing"}),
    "pools": ("pools", [{"name": "t4", "gpusPerNode": 2}]),
    "resourceNames": ("resource_names", ["nvidia.com/other"]),
    "rules": ("severities", {"GPU001": "off"}),
    "runtimeClass": ("runtime_class", "other"),
    "runtimeClasses": ("runtime_classes", ["other"]),
    "toolkitFloor": ("toolkit_floor", "1.99.0"),
}
"""Field of the context, and a value that the stack `GUARDED` doesn't have, by setting."""


@pytest.fixture(autouse=True)
def no_stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(settings, "_received", {})
    monkeypatch.setattr(settings, "_readers", [context_of_document])
    monkeypatch.delenv("PULUMI_CONFIG", raising=False)
    yield
    settings._cached_context.cache_clear()


def arguments(
    props: dict[str, Any], config: dict[str, Any] | None = None, type_: str = "core/v1:Pod"
) -> ResourceValidationArgs:
    options = PolicyResourceOptions(False, [], None, [], None, [])  # type: ignore[arg-type]
    token = type_ if type_.startswith("command:") else f"kubernetes:{type_}"
    proxy = unknown_checking_proxy(props)
    return ResourceValidationArgs(token, proxy, "urn:a", "a", options, None, config)


def pod(limit: Any, **container: Any) -> dict[str, Any]:
    resources = {"limits": {GPU: limit}}
    return {"spec": {"containers": [{"name": "cuda", "resources": resources, **container}]}}


def reported(args: ResourceValidationArgs) -> dict[str, list[str]]:
    result = {}
    for policy in pack.policies():
        messages: list[str] = []
        if not isinstance(policy, ResourceValidationPolicy):
            continue
        policy.validate(args, lambda message, _, into=messages: into.append(message))
        result[policy.name] = messages
    return result


def ids(args: ResourceValidationArgs) -> list[str]:
    rules = [message.split()[0] for messages in reported(args).values() for message in messages]
    return [rule_id for rule_id in rules if rule_id not in ("GPU049", "GPU050")]


def test_unknown_values_become_a_mark_and_the_rest_stays() -> None:
    proxy = unknown_checking_proxy({"a": UNKNOWN_STRING_VALUE, "b": [1, UNKNOWN_STRING_VALUE, {}]})
    assert pack.plain(proxy) == {"a": UNKNOWN, "b": [1, UNKNOWN, {}]}


@pytest.mark.parametrize("limit", [UNKNOWN_STRING_VALUE, "1"])
def test_what_is_unknown_or_right_is_not_reported(limit: str) -> None:
    assert ids(arguments(pod(limit))) == []


def test_each_level_gets_its_own() -> None:
    privileged = {"securityContext": {"privileged": True}, "image": UNKNOWN_STRING_VALUE}
    off = {"rules": {"GPU049": "off", "GPU050": "off", "GPU022": "advisory"}}
    messages = reported(arguments(pod("1500m", **privileged), off))
    assert [message[:6] for message in messages[pack.MANDATORY]] == ["GPU001"]
    assert [message[:6] for message in messages[pack.ADVISORY]] == ["GPU022"]


def test_pools_come_from_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_received", {settings.STACK_KEY: json.dumps(CLUSTER)})
    assert ids(arguments(pod(5))) == ["GPU004", "GPU007"]


def test_pools_come_from_the_environment_of_an_older_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configuration = {settings.STACK_KEY: json.dumps(CLUSTER), "other:secret": "s"}
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(configuration))
    assert ids(arguments(pod(5))) == ["GPU004", "GPU007"]


def test_settings_stand_before_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_received", {settings.STACK_KEY: json.dumps(CLUSTER)})
    own: dict[str, Any] = {
        "pools": [{"name": "t4", "gpusPerNode": 6}],
        "rules": {"GPU007": "advisory"},
    }
    own["rules"] |= {"GPU049": "off", "GPU050": "off"}
    assert ids(arguments(pod(5), own)) == []
    messages = reported(arguments(pod(7), own))
    assert (len(messages[pack.MANDATORY]), len(messages[pack.ADVISORY])) == (0, 1)


@pytest.mark.parametrize("setting", sorted(PROPERTIES.keys() - {RULE_FOLDER, IGNORED_PATHS}))
def test_a_setting_of_the_pack_replaces_this_setting_of_the_stack_and_no_other(
    monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setattr(settings, "_received", {settings.STACK_KEY: json.dumps(GUARDED)})
    field, value = SETTINGS[setting]
    stack = settings.context_for({})
    both = settings.context_for({setting: value})
    assert [
        part.name for part in fields(stack) if getattr(stack, part.name) != getattr(both, part.name)
    ] == [field]
    others = {name: other for name, (_, other) in SETTINGS.items() if name != setting}
    assert getattr(settings.context_for(others), field) == getattr(stack, field)


def test_pack_and_checker_have_the_context_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "_received", {settings.STACK_KEY: json.dumps(GUARDED)})
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(yaml.safe_dump({"config": {settings.STACK_KEY: GUARDED}}))
    program = context_of_document(json.dumps(GUARDED))
    assert program.severities["GPU049"] == Severity.OFF
    assert settings.context_for({}) == program
    assert context_of_stack("dev", tmp_path) == program


def test_settings_reach_the_context() -> None:
    context = settings.context_for(
        {
            "pools": [
                {"name": "t4", "gpusPerNode": 2, "taints": ["a/b=c:NoExecute", "d:NoSchedule"]}
            ],
            "platform": "gpu-manager",
            "resourceNames": ["nvidia.com/a100"],
            "extendedResourceToleration": True,
            "infrastructureNamespaces": ["gpus"],
            "rules": {"GPU001": "off"},
        }
    )
    assert [str(taint) for taint in context.pools[0].taints] == ["a/b=c:NoExecute", "d:NoSchedule"]
    assert context.platform == "gpu-manager"
    assert context.resource_names == {"nvidia.com/a100"}
    assert context.extended_resource_toleration
    assert context.infrastructure_namespaces == {"gpus"}
    assert context.severities == {"GPU001": Severity.OFF}


def test_every_rule_can_be_set() -> None:
    assert set(settings.SCHEMA.properties["rules"]["properties"]) == set(RULES)


def test_a_broken_stack_is_reported_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = json.dumps({**CLUSTER, "platform": "gpus"})
    monkeypatch.setattr(settings, "_received", {settings.STACK_KEY: broken})
    (message,) = reported(arguments(pod(1)))[pack.MANDATORY]
    assert "gpu-cluster:cluster cannot be used" in message
    assert "platform" in message


def test_a_stack_that_nobody_reads_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_readers", [])
    settings._cached_context.cache_clear()
    monkeypatch.setattr(settings, "_received", {settings.STACK_KEY: json.dumps(CLUSTER)})
    (message,) = reported(arguments(pod(1)))[pack.MANDATORY]
    assert "this pack cannot read it" in message


@pytest.mark.parametrize("type_", ["core/v1:Secret", "core/v1:ConfigMap", "helm.sh/v3:Release"])
def test_other_types_pass_untouched(type_: str) -> None:
    assert ids(arguments(pod("500m"), type_=type_)) == []


def test_no_message_holds_a_long_value_or_an_environment_value() -> None:
    canary = "canary-0123456789-abcdefghij"
    environment = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": canary}]
    result = str(reported(arguments(pod(canary, env=environment))))
    assert "GPU009" in result
    assert "GPU017" in result
    assert canary not in result


def stack(*resources: tuple[str, dict[str, Any]]) -> dict[str, list[str]]:
    """Return the ids of the rules that the stack policies report, by policy."""
    options: Any = PolicyResourceOptions(False, [], None, [], None, [])  # type: ignore[arg-type]
    manifests = [
        PolicyResource(
            token, unknown_checking_proxy(props), token, "a", options, None, None, [], {}
        )
        for token, props in resources
    ]
    args = StackValidationArgs(manifests, {}, {})
    said: dict[str, list[str]] = {}
    for policy in pack.policies():
        if isinstance(policy, StackValidationPolicy):
            messages = said.setdefault(policy.name, [])
            policy.validate(args, lambda message, _, into=messages: into.append(message[:6]))
    return said


def in_team(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "a", "namespace": "team-a"}, **spec}


LEVEL = {"pod-security.kubernetes.io/enforce": "baseline"}
NAMESPACE = ("kubernetes:core/v1:Namespace", {"metadata": {"name": "team-a", "labels": LEVEL}})


def test_the_whole_stack_is_judged_although_values_are_unknown() -> None:
    unknown = {"metadata": {"name": "b", "labels": {"a": UNKNOWN_STRING_VALUE}}, "spec": {}}
    user = ("kubernetes:core/v1:Pod", in_team(pod(1)))
    messages = stack(NAMESPACE, user, ("kubernetes:core/v1:Service", unknown))
    assert messages == {pack.STACK_MANDATORY: [], pack.STACK_ADVISORY: ["GPU029"]}


def test_a_patch_is_no_part_of_the_stacks_sums() -> None:
    assert stack(NAMESPACE, ("kubernetes:core/v1:PodPatch", in_team(pod(1)))) == {
        pack.STACK_MANDATORY: [],
        pack.STACK_ADVISORY: [],
    }


def test_advice_on_the_stack_is_advice() -> None:
    quota = {"spec": {"hard": {"requests.nvidia.com/gpu": "1"}}}
    messages = stack(
        NAMESPACE,
        ("kubernetes:core/v1:Pod", in_team(pod(2))),
        ("kubernetes:core/v1:ResourceQuota", in_team(quota)),
    )
    assert messages == {pack.STACK_MANDATORY: [], pack.STACK_ADVISORY: ["GPU041"]}


def secret(value: Any) -> dict[str, Any]:
    return {SPECIAL_SIG_KEY: SPECIAL_SECRET_SIG, "value": value}


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = sdk
    monkeypatch.setattr(module, "deserialize_properties", module.deserialize_properties)
    settings.mark_secrets()
    return module.deserialize_properties


COMMAND = {"create": "true", "delete": "true", "connection": {"host": "a", "hostKey": "k"}}


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, []),
        ({"connection": secret({"host": "a", "hostKey": "k", "privateKey": "x"})}, []),
        ({"connection": {"host": "a", "hostKey": "k", "privateKey": secret("x")}}, []),
        ({"connection": {"host": "a", "hostKey": "k", "privateKey": "x"}}, ["GPU057"]),
        ({"connection": secret({"host": "a", "privateKey": "x"})}, ["GPU056"]),
        ({"connection": {"host": "a", "hostKey": UNKNOWN_STRING_VALUE}}, []),
        ({"connection": secret(UNKNOWN_STRING_VALUE)}, []),
        ({"stdin": secret(UNKNOWN_STRING_VALUE)}, ["GPU058"]),
        ({"stdin": secret(["a", {"b": "c"}]), "logging": "none"}, []),
        ({"environment": {"A": secret("x")}, "logging": "stdout"}, ["GPU058"]),
    ],
)
def test_secrets_of_commands_are_told_from_other_values(
    marked: Any, changes: dict[str, Any], wanted: list[str]
) -> None:
    props = marked({**COMMAND, **changes})
    assert ids(arguments(props, type_="command:remote:Command")) == wanted


def test_secrets_of_other_resources_are_plain_values(marked: Any) -> None:
    props = marked({"spec": secret({"containers": [{"resources": {"limits": {GPU: "0.5"}}}]})})
    assert ids(arguments(props)) == ["GPU001"]


def test_remediations_still_get_secrets_as_the_sdk_gives_them(marked: Any) -> None:
    assert type(marked({"a": secret("b")}, True)).__name__ == "_DictSecretsProxy"


def test_an_exempted_violation_is_listed_as_advice() -> None:
    exempted = pod("500m") | {
        "metadata": {"annotations": {"exempt.gpu-cluster/GPU001": "2030-01-01 the reason"}}
    }
    messages = reported(arguments(exempted, {"rules": {"GPU050": "off"}}))
    assert messages[pack.MANDATORY] == []
    assert [m[:6] for m in messages[pack.ADVISORY]] == ["GPU001"]
    assert messages[pack.ADVISORY][0].endswith("[exempt until 2030-01-01: the reason]")


def test_a_chart_whose_objects_are_not_known_is_told_as_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Chart.yaml").write_text("name: workers\n")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path))
    messages = reported(
        arguments({"chart": str(tmp_path), "name": "w"}, type_="helm.sh/v3:Release")
    )
    assert messages[pack.MANDATORY] == []
    assert any("objects are not checked" in advice for advice in messages[pack.ADVISORY])
    assert not any("not checked" in advice for advice in reported(arguments(pod(1)))[pack.ADVISORY])


def test_what_no_rule_reads_is_told_as_advice() -> None:
    unread = {"spec": {"workers": {"gpuCards": 2}}}
    unknown = {"spec": {"containers": [{"resources": {"limits": {"example.com/gpu": 1}}}]}}
    messages = reported(arguments(unread, type_="example.com/v1:Train"))
    assert messages[pack.MANDATORY] == []
    assert [advice.partition(":")[0] for advice in messages[pack.ADVISORY]] == [
        "spec.workers.gpuCards"
    ]
    (advice,) = reported(arguments(unknown, {"rules": {"GPU050": "off"}}))[pack.ADVISORY]
    assert "resourceNames" in advice


@pytest.mark.promise(
    "Levels, namespaces, names and exemptions of `guardrails` hold in pack, checker and admission."
)
def test_one_configuration_reaches_the_pack_and_the_policies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "_received", {settings.STACK_KEY: json.dumps(GUARDED)})
    context = settings.context_for({})
    assert context.severities == {"GPU050": "mandatory", "GPU049": "off"}
    assert "monitoring" in context.infrastructure_namespaces
    assert "kube-system" in context.infrastructure_namespaces
    assert context.resource_names == {"example.com/npu"}
    assert "kata" in context.runtime_classes
    assert context.other_claims == {"odd"}
    assert context.allowed_host_paths == {"/scratch"}
    assert [given.reason for given in context.exemptions] == ["why"]
    asking = pod(1, image="i:latest")
    asking["spec"]["tolerations"] = [{"operator": "Exists"}]
    messages = reported(arguments(asking))
    assert [message[:6] for message in messages[pack.MANDATORY]] == ["GPU050"]
    assert messages[pack.ADVISORY][0].endswith("[exempt until 2030-12-31: why]")
    how = Enforcement({Severity.MANDATORY: ["Deny"], Severity.ADVISORY: ["Warn"]})
    written = {
        made["metadata"]["name"]: json.dumps(made)
        for made in manifests(context, how)
        if not made["kind"].endswith("Binding")
    }
    denied, warned = (written[f"gpu-rules-pods-{level}"] for level in ("mandatory", "advisory"))
    assert "variables.GPU050" in denied
    assert "variables.GPU049" not in denied + warned
    assert "2030-12-31" in warned
