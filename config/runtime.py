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

    engine: Engine = Field(Engine.CONTAINERD, description="containerd", examples=["containerd"])
    default_runtime: DefaultRuntime = Field(
        DefaultRuntime.NVIDIA, description="nvidia or runc", examples=["nvidia"]
    )
    cdi: Truth = Field(
        False,
        description="true or false: devices by the Container Device Interface",
        examples=["false"],
    )
    systemd_cgroup: Truth = Field(
        True, description="true or false: cgroups by systemd, as kubelet's", examples=["true"]
    )
