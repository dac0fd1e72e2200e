"""Alerts and dashboard panels for HAMi's own metrics, of the monitor in its device plugin's pods.

Source: Project-HAMi/HAMi v2.10.0 (4707fb02), cmd/vGPUmonitor/metrics.go and
charts/hami/templates/device-plugin/monitorservice.yaml.
"""

from __future__ import annotations

from typing import Final

from gpu_cluster.platforms.base import Metrics

_CONTAINER: Final = "{{namespace}}/{{pod}}/{{container}}"


def metrics(daemon_set: str) -> Metrics:
    """Return the alerts and panels.

    Args:
        daemon_set: Name of the DaemonSet of HAMi's device plugin.
    """
    service = f"{daemon_set}-monitor"
    return Metrics(
        service=service,
        labels={"app.kubernetes.io/component": "hami-device-plugin"},
        path="/metrics",
        port="monitorport",
        alerts=(
            (
                "HamiMonitorDown",
                f'absent(up{{job="{service}"}} == 1)',
                "10m",
                "critical",
                "No monitor of HAMi responds",
                f"See the DaemonSet {daemon_set}.",
            ),
            (
                "GpuShareExceeded",
                "hami_vgpu_memory_used_bytes > hami_vgpu_memory_limit_bytes "
                "and hami_vgpu_memory_limit_bytes > 0",
                "5m",
                "warning",
                "{{ $labels.namespace }}/{{ $labels.pod }} uses more GPU memory than it requested",
                "Check that its program loads HAMi's library: CUDA_DISABLE_CONTROL turns it off.",
            ),
        ),
        panels=(
            ("Share used", "hami_container_device_utilization_ratio", "percent", _CONTAINER),
            ("Memory used by containers", "hami_vgpu_memory_used_bytes", "bytes", _CONTAINER),
            ("Memory requested", "hami_vgpu_memory_limit_bytes", "bytes", _CONTAINER),
        ),
    )
