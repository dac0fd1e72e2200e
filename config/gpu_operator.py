"""NVIDIA's GPU Operator: its chart."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from config.model import Model, Text, Truth
from config.names import DnsLabel
from config.versions import pattern


class GpuOperator(Model):
    """The Helm release. The chart's git tag and version both carry the `v`.

    `toolkit`: whether the operator configures the container runtime of the nodes. By default it
    does where it also brings the driver, and not where host and runtime are prepared by SSH:
    two writers of one runtime configuration undo each other.
    """

    version: Annotated[
        Text,
        AfterValidator(pattern(r"v\d+\.\d+\.\d+", "a chart version such as v26.7.0", "v26.7.0")),
    ] = Field(
        default="v26.7.0", description="a chart version such as v26.7.0", examples=["v26.7.0"]
    )
    namespace: DnsLabel = Field(
        default="gpu-operator", description="a namespace", examples=["gpu-operator"]
    )
    toolkit: Truth = Field(
        default=False,
        description="true or false: the operator configures the container runtime",
        examples=["false"],
    )
