"""What the page about time-slicing says of NVIDIA's verification is true when it is followed.

Source: docs.nvidia.com, GPU Operator, "Time-Slicing GPUs in Kubernetes", "Verifying the GPU
Time-Slicing Configuration": a Deployment whose pods tolerate the GPU taint and have hostPID.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.loader import load
from gpu_rules.rules import Context, Severity, evaluate
from tests.fixtures.documents import stack_document
from tests.policies.check.running import ROOT

PAGE = (ROOT / "docs" / "how-to" / "time-slicing.md").read_text().partition("## NVIDIA's")[2]
SAMPLE_IMAGE = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda11.7.1-ubuntu20.04"


def deployment(namespace: str, image: str = SAMPLE_IMAGE, **spec: Any) -> dict[str, Any]:
    container = {"name": "a", "image": image, "resources": {"limits": {"nvidia.com/gpu": 1}}}
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    template = {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"tolerations": [toleration], "containers": [container], **spec},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "time-slicing-verification", "namespace": namespace},
        "spec": {
            "replicas": 5,
            "selector": {"matchLabels": {"app": "a"}},
            "template": template,
        },
    }


def context(**parts: Any) -> Context:
    document = stack_document(pools=[{"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8}]) | parts
    return resolve(load(document), "dev").rules


def refused(given: Context, *about: Any, **spec: Any) -> set[str]:
    """Return the rules that refuse the Deployment."""
    violations = evaluate(deployment(*about, **spec), given)
    return {each.rule.id for each in violations if each.severity is Severity.MANDATORY}


@pytest.mark.promise("NVIDIA's verification of time-slicing is admitted without its hostPID.")
def test_the_sample_needs_no_more_than_that_its_line_is_deleted() -> None:
    assert "delete this line" in PAGE
    assert refused(context(), "default", hostPID=True) == {"GPU067"}
    assert refused(context(), "default") == set()


def test_the_exemption_of_the_page_holds_for_its_namespace_and_images_only() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    given = context(**yaml.safe_load(block))
    (exemption,) = given.exemptions
    (space,) = exemption.namespaces
    assert "*" not in space
    assert refused(given, space, hostPID=True) == set()
    assert refused(given, "team-a", hostPID=True) == {"GPU067"}
    assert refused(given, space, "docker.io/cuda-sample:latest", hostPID=True) == {"GPU067"}
