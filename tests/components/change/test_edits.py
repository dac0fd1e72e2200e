"""Edits of a stack file are named in its own words, and no secret stands among them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpu_cluster.change.document import SettingEdit
from gpu_cluster.change.edits import LONGEST, edits, recorded_settings, without_digests
from gpu_cluster.change.text import edit_text
from tests.components.change.edits import EDITS
from tests.components.change.world import base

TEAM = {"namespace": "team-a", "resources": {"nvidia.com/gpu": 8}}
GUARDED = {**base(), "guardrails": {"mode": "enforce", "quotas": [TEAM]}}


def changed(was: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each.path, each.was, each.now) for each in edits(recorded_settings(was), now)]


def pool(**fields: Any) -> dict[str, Any]:
    made = copy.deepcopy(base())
    made["pools"][0] |= fields
    return made


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        (base(), base(), []),
        (base(), pool(gpusPerNode=4), [("pools[a100].gpusPerNode", "8", "4")]),
        (
            base(),
            {**base(), "guardrails": {"mode": "enforce"}},
            [("guardrails", "", "{mode: enforce}")],
        ),
        (
            GUARDED,
            {**base(), "guardrails": {"mode": "warn"}},
            [
                ("guardrails.mode", "enforce", "warn"),
                (
                    "guardrails.quotas",
                    "[{namespace: team-a, resources: {nvidia.com/gpu: 8}}]",
                    "",
                ),
            ],
        ),
        (
            pool(nodes=["gpu-[1-4]"]),
            pool(nodes=["gpu-1", "gpu-[3-4]"]),
            [("pools[a100].nodes", "['gpu-[1-4]']", "[gpu-1, 'gpu-[3-4]']")],
        ),
        ({**base(), "maintenance": []}, {**base()}, [("maintenance", "[]", "")]),
    ],
)
def test_an_edit_is_named_by_its_path_before_and_after(
    was: dict[str, Any], now: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    assert changed(was, now) == expected


@pytest.mark.promise("The comment of a pull request names each edited setting of the stack file.")
@pytest.mark.parametrize("name", EDITS)
def test_each_edit_of_a_stack_file_is_named_and_no_other(name: str) -> None:
    edit = EDITS[name]
    is_edited = edit.before != edit.after
    assert bool(changed(edit.before, edit.after)) == is_edited
    assert changed(edit.after, edit.after) == []


def secret(value: str) -> dict[str, Any]:
    return {**base(), "devicePlugin": {"extraValues": {"token": {"secure": value}}}}


def test_a_changed_secret_is_named_by_digests_only() -> None:
    ((path, was, now),) = changed(secret("one"), secret("two"))
    assert path == "devicePlugin.extraValues.token"
    assert was.startswith("a secret, digest ")
    assert was != now
    assert "one" not in recorded_settings(secret("one"))
    plain = {**base(), "devicePlugin": {"extraValues": {"token": "hunter2", "on": True}}}
    text = recorded_settings(plain, has_secrets=True)
    assert "hunter2" not in text
    assert '"on": true' in text


def test_a_copy_of_the_state_without_digests_claims_no_edit_of_secrets() -> None:
    copied = without_digests(recorded_settings(secret("one")))
    assert edits(copied, secret("placeholder")) == ()


def test_a_long_value_is_shortened_and_stays_one_line() -> None:
    now = {**base(), "cuda": {"text": "x\n" * 400}}
    (edit,) = edits(recorded_settings(base()), now)
    assert isinstance(edit, SettingEdit)
    assert len(edit.now) <= 2 * LONGEST
    assert "\n" not in edit.now


def test_settings_that_no_run_recorded_are_refused() -> None:
    with pytest.raises(ValueError, match="no mapping"):
        edits("[]", base())


@pytest.mark.parametrize(
    ("was", "now", "text"),
    [
        (
            base(),
            pool(taints=["example.com/own=:NoSchedule"]),
            "added, ['example.com/own=:NoSchedule'], in place of the default "
            "['nvidia.com/gpu=present:NoSchedule']",
        ),
        (
            pool(labels={"team": "ml"}),
            base(),
            "taken out, was {team: ml}; the default {nvidia.com/gpu: 'true'} holds again",
        ),
        (pool(gpusPerNode=0), pool(gpusPerNode=0, labels={"team": "ml"}), "added, {team: ml}"),
    ],
)
def test_a_default_that_an_edit_replaces_is_named(
    was: dict[str, Any], now: dict[str, Any], text: str
) -> None:
    (edit,) = edits(recorded_settings(was), now)
    assert edit_text(edit, str) == text
