"""Replacing some sections of a stack file keeps its other sections and its comments."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpu_cluster.base.yaml_file import parse
from gpu_cluster.commands.adoption.stack_text import new_text, with_sections
from gpu_rules.faults import InputError

TEXT = """\
# The head.
config:
  pulumi:disable-default-providers:
    - kubernetes
  gpu-cluster:cluster:
    version: v1
    # About the context.
    kubernetes:
      context: prod # the context

    # About pools.
    pools:
      - name: a100 # a comment that goes
        nodes: [gpu-1]

    # About the platform.
    platform: device-plugin # the platform
"""


def settings(text: str) -> Any:
    return parse(text).value["config"]["gpu-cluster:cluster"]


def test_a_changed_section_leaves_all_other_lines() -> None:
    text = with_sections(TEXT, {"pools": [{"name": "h100", "nodes": ["gpu-2"]}]})
    assert settings(text)["pools"] == [{"name": "h100", "nodes": ["gpu-2"]}]
    kept = [line for line in TEXT.splitlines() if "a100" not in line and "gpu-1" not in line]
    assert all(line in text.splitlines() for line in kept)
    assert text.index("# About pools.") < text.index("h100") < text.index("# About the platform.")


def test_an_equal_section_keeps_its_text() -> None:
    same = {"platform": "device-plugin", "pools": [{"name": "a100", "nodes": ["gpu-1"]}]}
    assert with_sections(TEXT, same) == TEXT


def test_a_new_section_comes_last_and_can_be_removed() -> None:
    added = with_sections(TEXT, {"maintenance": ["gpu-1"]})
    assert list(settings(added))[-1] == "maintenance"
    assert with_sections(added, {"maintenance": None}) == TEXT


def test_a_file_without_a_last_newline_stays_yaml() -> None:
    text = with_sections(TEXT.rstrip("\n"), {"maintenance": ["gpu-1"]})
    assert settings(text)["maintenance"] == ["gpu-1"]


def test_what_follows_the_settings_stays() -> None:
    text = with_sections(f"{TEXT}  aws:region: eu\nencryptionsalt: v1:x\n", {"maintenance": ["a"]})
    assert parse(text).value["config"]["aws:region"] == "eu"
    assert settings(text)["maintenance"] == ["a"]


def test_a_flow_mapping_is_refused() -> None:
    with pytest.raises(InputError):
        with_sections("config: {gpu-cluster:cluster: {version: v1}}\n", {"platform": "dra"})


TEXTS = st.text(max_size=12)
VALUES = st.recursive(
    TEXTS | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_any_value_is_read_as_it_was_written(value: Any) -> None:
    text = with_sections(new_text({"version": "v1"}), {"values": value})
    assert settings(text)["values"] == value


@pytest.mark.parametrize("text", ["0o17", "1e3", "on", "0x1F", "1_000", "~", "2024-01-01", "017"])
def test_a_text_that_looks_like_another_value_stays_a_text(text: str) -> None:
    written = with_sections(new_text({"version": "v1"}), {"values": {"a": text}})
    assert settings(written)["values"] == {"a": text}
    assert yaml.safe_load(written)["config"]["gpu-cluster:cluster"]["values"] == {"a": text}
