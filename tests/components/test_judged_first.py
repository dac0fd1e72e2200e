"""A program that breaks a rule creates nothing of a cluster, wherever it breaks the rule."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.fixtures.programs import run_program

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json, sys
from unittest.mock import patch
import pulumi, pulumi_kubernetes as k8s
from gpu_cluster.cluster import GpuCluster, GpuClusterArgs
from gpu_rules.guard import RuleBroken, enforce
from tests.fixtures.documents import stack_document
from tests.mocks import Recorder, declare

def bad_pod(*_):
    container = {"name": "c", "image": "c", "resources": {"limits": {"nvidia.com/gpu": "500m"}}}
    k8s.core.v1.Pod("train", spec={"containers": [container]})

def program():
    with patch.object(GpuCluster, "_declare_platform", inside):
        made = GpuCluster("gpu-cluster", GpuClusterArgs(settings=stack_document()))
    enforce(made.desired.rules)
    if where == "after":
        bad_pod()

def declare_platform(self, *arguments):
    if where == "inside":
        enforce(self.desired.rules)
        bad_pod()
    return original(self, *arguments)

where, preview = sys.argv[1:]
original, inside = GpuCluster._declare_platform, declare_platform
none = pulumi.ResourceHookBinding()
recorder, error = Recorder(), ""
with patch("gpu_cluster.hooks.binding", lambda *_, **__: none):
    with patch("gpu_cluster.hooks.around", lambda *_, **__: none):
        try:
            declare(program, preview=preview == "True", recorder=recorder)
        except RuleBroken as found:
            error = str(found)
print(json.dumps({"error": error, "made": [each.token for each in recorder.resources]}))
"""
"""A program with a cluster, run with the SDK's mocks in a process of its own.

A refused program leaves tasks and errors in the SDK.
"""


def ran(where: str, *, preview: bool) -> tuple[str, list[str], str]:
    """Run the program; return the error, the types of the created resources, and what it printed.

    Args:
        where: Where the program breaks a rule: `inside` the cluster, `after` it, or `nowhere`.
    """
    done = run_program(
        [sys.executable, "-P", "-c", PROGRAM, where, str(preview)],
        cwd=ROOT,
        env={"GPU_CLUSTER_INSPECTION": "off", "PYTHONPATH": ":".join(map(str, sys.path))},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    made = [each for each in found["made"] if not each.startswith("pulumi:pulumi")]
    return found["error"], made, done.stderr


@pytest.mark.parametrize("preview", [True, False])
@pytest.mark.parametrize("where", ["inside", "after"])
def test_a_program_that_breaks_a_rule_creates_nothing_of_the_cluster(
    where: str, preview: bool
) -> None:
    error, made, printed = ran(where, preview=preview)
    assert "Pod train: rejected by the GPU rules\n  GPU001" in error
    assert made == []
    assert "never retrieved" not in printed


def test_a_program_that_keeps_the_rules_creates_the_cluster() -> None:
    error, made, _ = ran("nowhere", preview=False)
    assert error == ""
    assert "gpucluster:index:GpuPlatform" in made
