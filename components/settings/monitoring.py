"""Section `monitoring` of the stack file: metrics, alerts and a dashboard."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictInt

from components.base.image import Image
from components.base.model import Freeze, FrozenDict, Model
from components.base.names import LabelKey, LabelValue, OwnNamespace


class OperatorObjects(StrEnum):
    """When the program creates ServiceMonitor and PrometheusRule objects.

    `auto`: if the inspection of the cluster finds their CustomResourceDefinitions. Without an
    inspection the objects are not created.
    """

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class MonitoringSettings(Model):
    """Settings of the DCGM exporter on GPU nodes, the alert rules and the Grafana dashboard.

    If the GPU Operator is the platform, its own exporter is used and no second one is installed.
    `operatorObjects` controls ServiceMonitor and PrometheusRule, which need the Prometheus
    Operator's CustomResourceDefinitions. `labels` are the labels by which the cluster's Prometheus
    selects these objects; `dashboardLabels` are those by which Grafana's sidecar finds the
    dashboard.
    """

    namespace: OwnNamespace = Field(
        default="gpu-monitoring", description="a namespace", examples=["gpu-monitoring"]
    )
    exporter_image: Image = Field(
        default="nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless",
        description="an image reference with a tag or a digest",
        examples=["nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless"],
    )
    operator_objects: OperatorObjects = Field(
        default=OperatorObjects.AUTO, description="auto, always or never", examples=["auto"]
    )
    interval_seconds: StrictInt = Field(
        default=30, ge=5, le=300, description="a whole number from 5 to 300", examples=[30]
    )
    hot_celsius: StrictInt = Field(
        default=85,
        ge=50,
        le=110,
        description="a whole number from 50 to 110: the GPU temperature that is too hot",
        examples=[85],
    )
    labels: Annotated[dict[LabelKey, LabelValue], Freeze] = Field(
        default=FrozenDict({}),
        description="a mapping of label keys to values",
        examples=["{release: prom}"],
    )
    dashboard_labels: Annotated[dict[LabelKey, LabelValue], Freeze] = Field(
        default=FrozenDict({"grafana_dashboard": "1"}),
        description="a mapping of label keys to values",
        examples=['{grafana_dashboard: "1"}'],
    )
