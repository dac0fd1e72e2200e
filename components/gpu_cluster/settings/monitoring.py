"""Section `monitoring` of the stack file: metrics, alerts and a dashboard."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, StrictInt, StrictStr

from gpu_cluster.base.image import Image
from gpu_cluster.base.model import Freeze, FrozenDict, Model
from gpu_cluster.base.names import LabelKey, LabelValue, OwnNamespace
from gpu_cluster.base.versions import pattern
from gpu_cluster.charts.extra_values import Resources
from gpu_rules.faults import refuse, show

_FIELD = ("a field of DCGM in capitals", "DCGM_FI_PROF_SM_ACTIVE")
_HELP = ("a text of at most 200 characters without commas", "Share of active SMs.")


# Environment variables of the DCGM exporter that a stack file must not set, because other
# monitoring objects depend on them.
OWN_VARIABLES = ("DCGM_EXPORTER_LISTEN", "DCGM_EXPORTER_KUBERNETES", "NODE_NAME")


class OperatorObjects(StrEnum):
    """When the program creates ServiceMonitor and PrometheusRule objects.

    `auto`: if the inspection of the cluster finds their CustomResourceDefinitions. Without an
    inspection the objects are not created.
    """

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class CounterKind(StrEnum):
    """Type of a metric in Prometheus' text format."""

    GAUGE = "gauge"
    COUNTER = "counter"


class Counter(Model):
    """A field of DCGM that the exporter reports as a metric."""

    name: Annotated[StrictStr, AfterValidator(pattern(r"DCGM_[A-Z0-9_]{1,100}", *_FIELD))] = Field(
        description="a field of DCGM, such as DCGM_FI_PROF_SM_ACTIVE",
        examples=["DCGM_FI_PROF_SM_ACTIVE"],
    )
    kind: CounterKind = Field(
        default=CounterKind.GAUGE, description="gauge or counter", examples=["gauge"]
    )
    help: Annotated[StrictStr, AfterValidator(pattern(r"[^,\n\r]{0,200}", *_HELP))] = Field(
        default="", description="a text without commas", examples=["Share of active SMs."]
    )


def _validate_variables(variables: dict[str, str]) -> dict[str, str]:
    for name in variables:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,200}", name):
            near = re.sub(r"\W", "_", f"_{name}" if name[:1].isdigit() else name, flags=re.ASCII)
            cure = f'rename it to "{near[:200] or "DCGM_EXPORTER_INTERVAL"}"'
            raise refuse(show(name), "a name of an environment variable", cure)
        if name in OWN_VARIABLES:
            raise refuse(
                name,
                "a variable that this program does not set: Service and dashboard rely on its own",
                f"remove {name}",
            )
    return variables


class ExporterSettings(Model):
    """Settings of the DCGM exporter that the stack installs, in addition to its defaults."""

    counters: tuple[Counter, ...] = Field(
        default=(),
        description="a list of fields of DCGM to report in addition",
        examples=["[]"],
    )
    env: Annotated[dict[StrictStr, StrictStr], AfterValidator(_validate_variables), Freeze] = Field(
        default=FrozenDict({}),
        description="a mapping of environment variables to texts",
        examples=['{DCGM_EXPORTER_INTERVAL: "15000"}'],
    )
    resources: Resources | None = Field(
        default=None,
        description="a mapping with limits and requests",
        examples=["{limits: {memory: 1Gi}}"],
    )


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
        default="nvcr.io/nvidia/k8s/dcgm-exporter:4.6.1-4.8.4-distroless",
        description="an image reference with a tag or a digest",
        examples=["nvcr.io/nvidia/k8s/dcgm-exporter:4.6.1-4.8.4-distroless"],
    )
    exporter: ExporterSettings = Field(
        default=ExporterSettings(), description="a mapping with counters, env and resources"
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
