"""The container runtime of the hosts."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from config.model import Model, Truth


class Engine(StrEnum):
    """Container engines whose configuration is written."""

    CONTAINERD = "containerd"


class DefaultRuntime(StrEnum):
    """The runtime of pods that name no RuntimeClass."""

    NVIDIA = "nvidia"
    RUNC = "runc"


class Runtime(Model):
    """`defaultRuntime: nvidia` lets every GPU pod run without a RuntimeClass."""

    engine: Engine = Field(
        default=Engine.CONTAINERD, description="containerd", examples=["containerd"]
    )
    default_runtime: DefaultRuntime = Field(
        default=DefaultRuntime.NVIDIA, description="nvidia or runc", examples=["nvidia"]
    )
    cdi: Truth = Field(
        default=False,
        description="true or false: devices by the Container Device Interface",
        examples=["false"],
    )
    systemd_cgroup: Truth = Field(
        default=True,
        description="true or false: cgroups by systemd, as kubelet's",
        examples=["true"],
    )
