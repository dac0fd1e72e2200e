"""The settings of the rules have the names that the same settings have in a stack file."""

from __future__ import annotations

from gpu_cluster.base.model import Model
from gpu_cluster.settings.guardrails import GuardrailsSettings, SettledExemption
from gpu_cluster.settings.nodes.pool import Pool
from gpu_rules.parameters import PROPERTIES

ELSEWHERE = {"pools", "platform", "plugin", "runtimeClass", "toolkitFloor"}
"""Facts that a stack file has in other sections, or in the section of its platform."""
OF_THE_CHECKER = {"extendedResourceToleration", "ignorePaths", "ruleFolder"}
"""Settings that a stack has no use for."""


def names(model: type[Model]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def test_settings_are_named_as_in_the_stack_file() -> None:
    assert PROPERTIES.keys() - ELSEWHERE - OF_THE_CHECKER <= names(GuardrailsSettings)
    exemption = PROPERTIES["exemptions"]["items"]["properties"]
    assert exemption.keys() == names(SettledExemption)
    pool = PROPERTIES["pools"]["items"]["properties"]
    # The checker also reads the older name nodeNames.
    assert pool.keys() - {"nodeNames"} <= names(Pool)


def test_required_settings_are_those_of_the_stack_file() -> None:
    def required(model: type[Model]) -> set[str]:
        fields = model.model_fields.items()
        return {field.alias or name for name, field in fields if field.is_required()}

    assert set(PROPERTIES["exemptions"]["items"]["required"]) == required(SettledExemption)
    assert set(PROPERTIES["pools"]["items"]["required"]) == required(Pool)
