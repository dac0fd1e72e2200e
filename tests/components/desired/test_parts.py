"""A run for one part, such as hosts, neither inspects nor declares the other parts of a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.change.document import (
    ClusterChange,
    NodeChange,
    Numbers,
    PoolChange,
    Statement,
)
from gpu_cluster.change.text import headline
from gpu_cluster.desired.parts import WHOLE, Part
from gpu_cluster.desired.resolve import Desired, resolve
from gpu_cluster.findings import Aspect
from gpu_cluster.loading.loader import load
from gpu_cluster.operation import command_line
from gpu_cluster_lab.simulator.hosts import host_public_key
from tests.fixtures.documents import stack_document
from tests.fixtures.programs import run_program

ROOT = Path(__file__).parents[3]
DOCUMENT: dict[str, Any] = stack_document(
    context="here",
    platform="gpu-operator",
    pools=[{"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8, "mig": {"1g.10gb": 7}}],
    guardrails={"mode": "enforce"},
    monitoring={"namespace": "monitoring"},
    scheduling={"priorityClasses": [{"name": "train", "value": 10}]},
    validation={"namespace": "checks"},
    hosts=[{"name": "gpu-1", "address": "192.0.2.1", "hostKey": host_public_key("gpu-1")}],
)


def desired(*parts: Part) -> Desired:
    return resolve(load(DOCUMENT), "test").narrowed(parts)


def test_the_whole_is_not_narrowed() -> None:
    whole = resolve(load(DOCUMENT), "test")
    assert whole.narrowed(WHOLE) == whole


@pytest.mark.parametrize("part", Part)
def test_a_part_has_only_what_belongs_to_it(part: Part) -> None:
    found = desired(part)
    has = {
        Part.HOSTS: bool(found.hosts),
        Part.PLATFORM: bool(found.scheduling.pools and found.has_platform and found.monitoring),
        Part.VALIDATION: found.has_validation,
        Part.GUARDRAILS: found.guardrails is not None,
    }
    assert has == {other: other is part for other in Part}


HEADLINES = {
    Part.HOSTS: "1 node drained",
    Part.PLATFORM: "GPUs 0 → 8 (pool a: 0 → 8, with gpu-1); nobody drained",
    Part.VALIDATION: "will be validated: gpu-1",
    Part.GUARDRAILS: "no node and no pod changes",
}
"""First line of a preview of each part of a cluster that changes."""


@pytest.mark.parametrize("part", Part)
def test_a_part_says_nothing_of_what_another_program_declares(part: Part) -> None:
    change = ClusterChange(
        name="part",
        parts=(part,),
        pools=(PoolChange(pool="a", gpus=Numbers(before=0, after=8)),)
        if part is Part.PLATFORM
        else (),
        nodes=(
            NodeChange(
                node="gpu-1",
                pool="a" if part is Part.PLATFORM else "",
                drained=part is Part.HOSTS,
                validated=part is Part.VALIDATION,
            ),
        )
        if part is not Part.GUARDRAILS
        else (),
        changes=(Statement(subject="object", names=("x",), aspect=Aspect.CHART, now="1"),),
    )
    assert headline(change) == HEADLINES[part]


def test_the_inspection_of_a_part_asks_only_for_that_part() -> None:
    asked = desired(Part.VALIDATION).question
    assert asked.validation
    assert not asked.scheduling
    assert not asked.presence.objects
    assert asked.presence.release is None
    assert asked.chart is None
    assert not asked.layouts.pools
    assert not any(pool.hosts for pool in asked.validation)
    asked = desired(Part.PLATFORM).question
    assert asked.scheduling
    assert asked.chart is not None
    assert not asked.validation


def test_the_rules_know_the_platforms_namespaces_also_without_the_platform() -> None:
    whole = resolve(load(DOCUMENT), "test")
    assert desired(Part.GUARDRAILS).namespaces == whole.namespaces
    assert desired(Part.GUARDRAILS).rules == whole.rules


def clone(folder: Path) -> None:
    (folder / "components").symlink_to(ROOT / "components")


def linked(folder: Path) -> None:
    (folder.parent / "home" / "gpu-cluster").symlink_to(ROOT / "components")


@pytest.mark.parametrize("make", [clone, linked], ids=["in a clone", "by the package's link"])
def test_a_command_finds_its_program(make: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "program").mkdir()
    (tmp_path / "home").mkdir()
    make(tmp_path / "program")
    done = run_program(
        ["sh", "-c", command_line("none", "create")],
        cwd=tmp_path / "program",
        env={**os.environ, "PULUMI_HOME": str(tmp_path / "home"), "CDPATH": str(tmp_path)},
        timeout=120,
    )
    assert done.returncode != 0
    assert "No module named" not in done.stderr, done.stderr
    assert "not found" not in done.stderr, done.stderr
    assert "none" in done.stderr
