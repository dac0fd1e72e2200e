"""The pack reads what the engine gives it, unknown values included, and reports by level."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pulumi_policy import PolicyResourceOptions, ResourceValidationArgs
from pulumi_policy.policy import ResourceValidationPolicy
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, unknown_checking_proxy

from policies import pack, settings
from policies.rules import RULES, UNKNOWN, Severity

GPU = "nvidia.com/gpu"
CLUSTER = {
    "version": "v1",
    "kubernetes": {"context": "none"},
    "platform": "device-plugin",
    "pools": [{"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": 4}],
}


@pytest.fixture(autouse=True)
def no_stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(settings, "_received", {})
    monkeypatch.delenv("PULUMI_CONFIG", raising=False)
    yield
    settings._context.cache_clear()


def arguments(
    props: dict[str, Any], config: dict[str, Any] | None = None, type_: str = "core/v1:Pod"
) -> ResourceValidationArgs:
    options = PolicyResourceOptions(False, [], None, [], None, [])  # type: ignore[arg-type]
    token = f"kubernetes:{type_}"
    proxy = unknown_checking_proxy(props)
    return ResourceValidationArgs(token, proxy, "urn:a", "a", options, None, config)


def pod(limit: Any, **container: Any) -> dict[str, Any]:
    resources = {"limits": {GPU: limit}}
    return {"spec": {"containers": [{"name": "cuda", "resources": resources, **container}]}}


def reported(args: ResourceValidationArgs) -> dict[str, list[str]]:
    result = {}
    for policy in pack.policies():
        messages: list[str] = []
        assert isinstance(policy, ResourceValidationPolicy)
        policy.validate(args, lambda message, _, into=messages: into.append(message))
        result[policy.name] = messages
    return result


def ids(args: ResourceValidationArgs) -> list[str]:
    return [message.split()[0] for messages in reported(args).values() for message in messages]


def test_unknown_values_become_a_mark_and_the_rest_stays() -> None:
    proxy = unknown_checking_proxy({"a": UNKNOWN_STRING_VALUE, "b": [1, UNKNOWN_STRING_VALUE, {}]})
    assert pack.plain(proxy) == {"a": UNKNOWN, "b": [1, UNKNOWN, {}]}


@pytest.mark.parametrize("limit", [UNKNOWN_STRING_VALUE, "1"])
def test_what_is_unknown_or_right_is_not_reported(limit: str) -> None:
    assert ids(arguments(pod(limit))) == []


def test_each_level_gets_its_own() -> None:
    privileged = {"securityContext": {"privileged": True}, "image": UNKNOWN_STRING_VALUE}
    found = reported(arguments(pod("1500m", **privileged)))
    assert [message[:6] for message in found[pack.MANDATORY]] == ["GPU001"]
    assert [message[:6] for message in found[pack.ADVISORY]] == ["GPU022"]


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
    own = {"pools": [{"name": "t4", "gpusPerNode": 6}], "rules": {"GPU007": "advisory"}}
    assert ids(arguments(pod(5), own)) == []
    found = reported(arguments(pod(7), own))
    assert (len(found[pack.MANDATORY]), len(found[pack.ADVISORY])) == (0, 1)


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


@pytest.mark.parametrize("type_", ["core/v1:Secret", "core/v1:ConfigMap", "helm.sh/v3:Release"])
def test_other_types_pass_untouched(type_: str) -> None:
    assert ids(arguments(pod("500m"), type_=type_)) == []


def test_no_message_holds_a_long_value_or_an_environment_value() -> None:
    canary = "canary-0123456789-abcdefghij"
    environment = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": canary}]
    found = str(reported(arguments(pod(canary, env=environment))))
    assert "GPU009" in found
    assert "GPU017" in found
    assert canary not in found
