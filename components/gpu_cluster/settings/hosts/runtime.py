"""Section `runtime` of the stack file: the container runtime of hosts."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, StrictStr, model_validator

from gpu_cluster.base.model import Model
from gpu_cluster.settings.hosts.docker import Docker
from gpu_cluster.settings.hosts.engine_install import EngineInstall
from gpu_cluster.settings.hosts.toolkit import Toolkit, ToolkitSource
from gpu_rules.faults import refuse, show

__all__ = ["DefaultRuntime", "Docker", "Engine", "RuntimeSettings", "Toolkit", "ToolkitSource"]

_IMAGE = re.compile(
    r"[a-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)+(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?"
)


def _validate_sandbox_image(text: str) -> str:
    if _IMAGE.fullmatch(text) is None:
        raise refuse(
            show(text),
            "a whole image name with registry and tag or digest",
            "write a value such as docker.io/nvidia/cuda:12.8.1-base-ubuntu24.04",
        )
    return text


class Engine(StrEnum):
    """Container engines that this program can configure."""

    CONTAINERD = "containerd"
    DOCKER = "docker"
    CRI_O = "cri-o"
    K3S = "k3s"
    RKE2 = "rke2"


class DefaultRuntime(StrEnum):
    """The low-level runtime of pods without a RuntimeClass."""

    NVIDIA = "nvidia"
    RUNC = "runc"


class RuntimeSettings(Model):
    """Settings of the container engine and its NVIDIA runtime.

    With `defaultRuntime: nvidia`, every GPU pod runs without a RuntimeClass. K3s and RKE2 configure
    CDI and the cgroup driver themselves. containerd supports CDI since 1.7 and Docker since 25; on
    older versions the program configures no CDI. With `devicesByEnvironment: true`, any container
    can get GPUs through NVIDIA_VISIBLE_DEVICES, which bypasses the device plugin and quotas; this
    is the default of NVIDIA's packages. `checkImage` is an image in which nvidia-smi runs after the
    change. `install` installs the engine on all hosts without it, including hosts without GPUs.
    """

    engine: Engine = Field(
        default=Engine.CONTAINERD,
        description="containerd, docker, cri-o, k3s or rke2",
        examples=["containerd"],
    )
    default_runtime: DefaultRuntime = Field(
        default=DefaultRuntime.NVIDIA, description="nvidia or runc", examples=["nvidia"]
    )
    cdi: StrictBool = Field(
        default=True,
        description="true or false: devices by the Container Device Interface",
        examples=["true"],
    )
    devices_by_environment: StrictBool = Field(
        default=False,
        description="true or false: every container gets the GPUs that it names by a variable",
        examples=["false"],
    )
    systemd_cgroup: StrictBool = Field(
        default=True,
        description="true or false: cgroups by systemd, as kubelet's",
        examples=["true"],
    )
    install: EngineInstall | None = Field(
        default=None,
        description="a mapping with packages: the engine to install if a host has none",
    )
    toolkit: Toolkit = Field(default=Toolkit(), description="a mapping: the container toolkit")
    docker: Docker = Field(default=Docker(), description="a mapping: Docker's own settings")
    check_image: Annotated[StrictStr, AfterValidator(_validate_sandbox_image)] | None = Field(
        default=None,
        description="an image that has nvidia-smi's libraries",
        examples=["docker.io/nvidia/cuda:12.8.1-base-ubuntu24.04"],
    )

    @model_validator(mode="after")
    def _settings_of_the_engine(self) -> RuntimeSettings:
        if self.engine is not Engine.DOCKER and self.docker != Docker():
            raise refuse(
                f"settings of docker with engine {self.engine.value}",
                "engine: docker, or no section docker",
                "take one of the two out",
            )
        if self.check_image and self.engine not in (Engine.CONTAINERD, Engine.DOCKER):
            raise refuse(
                f"checkImage with engine {self.engine.value}",
                "containerd or docker, which run a container without a pod",
                "take checkImage out; validation runs pods on each GPU",
            )
        return self

    @model_validator(mode="after")
    def _engine_can_be_installed(self) -> RuntimeSettings:
        if self.install is None:
            return self
        engine, adapter = self.engine, self.install.cri_dockerd
        if engine not in (Engine.CONTAINERD, Engine.DOCKER):
            raise refuse(
                f"install for engine {engine.value}",
                "containerd or docker: only these can be installed apart from Kubernetes",
                "remove runtime.install, and install the engine as its makers say",
            )
        if (engine is Engine.DOCKER) != (adapter is not None):
            raise refuse(
                f"install for engine {engine.value} {'and' if adapter else 'without'} criDockerd",
                "criDockerd with engine docker only: kubelet 1.24 and later reaches Docker only "
                "through it",
                "remove criDockerd" if adapter else "add criDockerd: {locations: […], sha256: …}",
            )
        return self
