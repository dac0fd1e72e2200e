"""Alerts and dashboard panels for gpu-manager's own metrics.

Metrics at the path `/metric`: tkestack/gpu-manager 8cd842e, pkg/services/display/display.go.
"""

from __future__ import annotations

from gpu_cluster.platforms.base import Metrics
from gpu_cluster.platforms.gpu_manager.values import METRICS_PATH

_POD = "{{namespace}}/{{pod_name}}"

METRICS = Metrics(
    service="gpu-manager-metric",
    labels={"name": "gpu-manager-metric"},
    path=METRICS_PATH,
    alerts=(
        (
            "GpuManagerDown",
            'absent(up{job="gpu-manager-metric"} == 1)',
            "10m",
            "critical",
            "No gpu-manager responds",
            "See the DaemonSet gpu-manager-daemonset in kube-system.",
        ),
        (
            "GpuShareExceeded",
            'container_gpu_memory_total{gpu_memory="total"} > on (namespace, pod_name, '
            'container_name) container_request_gpu_memory{req_of_gpu_memory="total"}',
            "5m",
            "warning",
            "{{ $labels.namespace }}/{{ $labels.pod_name }} uses more GPU memory than it requested",
            "Check that its program is run through gpu-manager's libraries.",
        ),
    ),
    panels=(
        ("Card share used", 'container_gpu_utilization{gpu="total"}', "percent", _POD),
        (
            "GPU share requested",
            'container_request_gpu_utilization{req_of_gpu="total"} * 100',
            "percent",
            _POD,
        ),
        (
            "Memory used by containers",
            'container_gpu_memory_total{gpu_memory="total"} * 1048576',
            "bytes",
            _POD,
        ),
        (
            "Memory requested",
            'container_request_gpu_memory{req_of_gpu_memory="total"} * 1048576',
            "bytes",
            _POD,
        ),
    ),
)
