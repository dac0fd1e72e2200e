"""Responses of the custom metrics API in their two versions, for tests of utilization.

Form: k8s.io/metrics v0.36.3 pkg/apis/custom_metrics, types.go of v1beta1 and v1beta2, as
sigs.k8s.io/custom-metrics-apiserver v1.36.0 writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_cluster.commands.utilization import GROUP, METRIC

Json = dict[str, Any]
VERSIONS = ("v1beta1", "v1beta2")


def group(*versions: str) -> Json:
    """Return the response to discovery of the API group."""
    served = [{"groupVersion": f"{GROUP}/{each}", "version": each} for each in versions]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": GROUP,
        "versions": served,
        "preferredVersion": served[0],
    }


def value(version: str, pod: str, amount: str, at: str, window: int | None = None) -> Json:
    """Return the value of one pod, `namespace/name`."""
    namespace, _, name = pod.partition("/")
    described = {"kind": "Pod", "namespace": namespace, "name": name, "apiVersion": "/v1"}
    common = {"describedObject": described, "timestamp": at, "value": amount}
    if version == "v1beta1":
        covers = {} if window is None else {"window": window}
        return {**common, "metricName": METRIC, "selector": None, **covers}
    covers = {} if window is None else {"windowSeconds": window}
    return {**common, "metric": {"name": METRIC, "selector": None}, **covers}


def values(version: str, amounts: Mapping[str, str], at: str, window: int | None = None) -> Json:
    """Return the response with the values of pods, by `namespace/name`."""
    items = [value(version, pod, amount, at, window) for pod, amount in amounts.items()]
    head = {"kind": "MetricValueList", "apiVersion": f"{GROUP}/{version}", "metadata": {}}
    return {**head, "items": items}
