"""Manifests that people use as they stand break no rule, in the mode that fits them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from policies.rules import Context, Pool, Taint, evaluate

BY_VALUE = Taint("nvidia.com/gpu", "present")
BARE = Taint("nvidia.com/gpu")

# A CUDA sample with the toleration that NVIDIA's guides give.
CUDA_SAMPLE = """
apiVersion: v1
kind: Pod
metadata: {name: gpu-pod}
spec:
  restartPolicy: Never
  containers:
    - name: cuda-container
      image: nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0
      resources: {limits: {nvidia.com/gpu: "1"}}
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
"""
# The same with a toleration without operator, which fits a taint without value only.
NO_OPERATOR = CUDA_SAMPLE.replace("operator: Exists, ", "")
# A part of a GPU as gpu-manager's users write it: both lists, equal.
PART = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
    - name: web
      image: nginx
      resources:
        limits: {tencent.com/vcuda-core: 30, tencent.com/vcuda-memory: 20}
        requests: {tencent.com/vcuda-core: 30, tencent.com/vcuda-memory: 20}
"""


def context(platform: str, *taints: Taint) -> Context:
    return Context(pools=(Pool("gpu", 8, taints),), platform=platform)


@pytest.mark.parametrize(
    ("sample", "known"),
    [
        (CUDA_SAMPLE, context("device-plugin", BY_VALUE)),
        (CUDA_SAMPLE, context("gpu-operator", BARE)),
        (NO_OPERATOR, context("device-plugin", BARE)),
        (PART, context("gpu-manager")),
    ],
)
def test_a_sample_passes(sample: str, known: Context) -> None:
    assert evaluate(yaml.safe_load(sample), known) == []


def test_a_toleration_without_operator_does_not_fit_a_taint_with_a_value() -> None:
    manifest: Any = yaml.safe_load(NO_OPERATOR)
    found = evaluate(manifest, context("device-plugin", BY_VALUE))
    assert [violation.rule.id for violation in found] == ["GPU004"]
