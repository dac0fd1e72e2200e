"""The policy pack with one policy for each rule shows rules, levels and links to the engine."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pulumi_policy import EnforcementLevel, PolicyResourceOptions, ResourceValidationArgs
from pulumi_policy.policy import ResourceValidationPolicy
from pulumi_policy.proxy import unknown_checking_proxy

from gpu_rules import pack, pack_by_rule, settings
from gpu_rules.check.context import ContextError
from gpu_rules.rules import RULES

LEVELS = {
    "mandatory": EnforcementLevel.MANDATORY,
    "advisory": EnforcementLevel.ADVISORY,
    "off": EnforcementLevel.DISABLED,
}
BAD: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "team"},
    "spec": {
        "containers": [
            {
                "name": "cuda",
                "resources": {"limits": {"nvidia.com/gpu": "1500m"}},
                "securityContext": {"privileged": True},
            }
        ]
    },
}


@pytest.fixture(autouse=True)
def no_stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(settings, "_received", {})
    monkeypatch.delenv("PULUMI_CONFIG", raising=False)
    yield
    settings._cached_context.cache_clear()


def _arguments(config: dict[str, Any], manifest: Any = BAD) -> ResourceValidationArgs:
    options = PolicyResourceOptions(False, [], None, [], None, [])  # type: ignore[arg-type]
    token, props = "kubernetes:core/v1:Pod", unknown_checking_proxy(manifest)
    return ResourceValidationArgs(token, props, "urn:a", "a", options, None, config)


def _reported(
    found: dict[str, Any], config: dict[str, Any] | None = None, manifest: Any = BAD
) -> dict[str, list[str]]:
    result = {}
    for policy in pack_by_rule.policies(found):
        messages: list[str] = []
        if isinstance(policy, ResourceValidationPolicy):
            given = _arguments(config or {}, manifest)
            policy.validate(given, lambda text, _, to=messages: to.append(text))
            result[policy.name] = messages
    return {name: messages for name, messages in result.items() if messages}


@pytest.mark.promise("The policy pack with a policy for each rule reports each rule by its name.")
def test_each_rule_reports_by_its_own_policy() -> None:
    reported = _reported({})
    assert {"GPU001", "GPU022"} <= reported.keys()
    assert all(
        message.startswith(f"{name} ") for name, texts in reported.items() for message in texts
    )
    both = pack.judge_resource_by({}, _arguments({}))[0]
    assert sorted(v.message for v in both) == sorted(
        itertools.chain.from_iterable(reported.values())
    )


def test_every_rule_is_a_policy_with_its_level_title_and_link() -> None:
    policies = {policy.name: policy for policy in pack_by_rule.policies({})}
    assert len(policies) == len(pack_by_rule.policies({}))
    for rule in RULES.values():
        named = [name for name in (rule.id, f"{rule.id}{pack_by_rule.STACK}") if name in policies]
        assert named, rule.id
        for name in named:
            policy = policies[name]
            assert policy.enforcement_level == LEVELS[rule.severity]
            assert policy.display_name == rule.title
            assert policy.url is not None
            assert policy.url.endswith(f"#{rule.id.lower()}")


def test_levels_in_the_settings_are_the_levels_of_the_policies() -> None:
    given = {"rules": {"GPU001": "advisory", "GPU022": "off", "GPU050": "mandatory"}}
    policies = {policy.name: policy for policy in pack_by_rule.policies(given)}
    levels = {id_: policies[id_].enforcement_level for id_ in given["rules"]}
    assert levels == {id_: LEVELS[level] for id_, level in given["rules"].items()}
    reported = _reported(given)
    assert ("GPU001" in reported, "GPU022" in reported) == (True, False)


def test_a_level_that_the_engine_s_configuration_raises_stays_mandatory() -> None:
    config = {
        "pools": [{"name": "a100", "gpusPerNode": 8}],
        "infrastructureNamespaces": ["monitoring"],
    }
    agent: dict[str, Any] = copy.deepcopy(BAD)
    del agent["spec"]["containers"][0]["resources"]
    reported = _reported({}, config, agent)
    assert any(text.startswith("GPU079 ") for text in reported[pack_by_rule.SETTINGS])
    assert "GPU079" not in reported
    found = _reported(config, {}, agent)
    assert (pack_by_rule.SETTINGS in found, "GPU079" in found) == (False, True)


def test_an_exempted_violation_is_a_note() -> None:
    until = (date.today() + timedelta(days=30)).isoformat()
    entry = {"rules": ["GPU022"], "reason": "a driver", "until": until, "namespaces": ["team"]}
    reported = _reported({}, {"exemptions": [entry]})
    assert "GPU022" not in reported
    assert any(text.startswith("GPU022 ") for text in reported[pack_by_rule.NOTES])


def test_settings_that_cannot_be_used_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_received", {settings.STACK_KEY: "{}"})
    monkeypatch.setattr(settings, "_readers", [])
    reported = _reported({})
    assert list(reported) == [pack_by_rule.SETTINGS]
    assert "cannot read it" in reported[pack_by_rule.SETTINGS][0]


def test_the_settings_of_the_project_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gpu-rules.yaml").write_text("rules: {GPU001: advisory}\n")
    monkeypatch.setenv("PWD", str(tmp_path))
    assert pack_by_rule.found_settings() == {"rules": {"GPU001": "advisory"}}
    (tmp_path / ".gpu-rules.yaml").write_text("rules: {GPU001: loud}\n")
    with pytest.raises(ContextError, match="loud"):
        pack_by_rule.found_settings()
    monkeypatch.setenv("PWD", "/")
    assert pack_by_rule.found_settings() == {}
