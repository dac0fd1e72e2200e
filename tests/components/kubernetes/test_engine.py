"""A node's container engine is read from what kubelets of each distribution report."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpu_cluster.kubernetes.engine import parse_engine

ROWS = yaml.safe_load(Path(__file__).with_name("engines.yaml").read_text())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['by']} {row['text']}")
def test_each_distribution_s_engine_is_read(row: dict[str, str]) -> None:
    assert parse_engine(row["text"]) == (row["name"], row["version"])


@pytest.mark.parametrize("text", ["", None, 1, "containerd", "Unknown", "\n://1", "://1.2"])
def test_another_value_names_no_engine(text: object) -> None:
    assert parse_engine(text) == ("", "")


def test_an_engine_without_a_version_keeps_its_name() -> None:
    assert parse_engine("docker://Unknown") == ("docker", "")
