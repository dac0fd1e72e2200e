"""Installation of a container engine on hosts that have none."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, StrictStr

from gpu_cluster.base.image import Image
from gpu_cluster.base.model import Model
from gpu_cluster.base.versions import pattern
from gpu_cluster.settings.hosts.packages import PackageName
from gpu_cluster.settings.hosts.repository import Repositories
from gpu_cluster.settings.hosts.runfile import Archive

_VERSION = r"[0-9][A-Za-z0-9.+~-]*"


class EngineInstall(Model):
    """Packages of the container engine, such as [containerd] or [docker-ce, docker-ce-cli].

    Only hosts without the engine get these packages; an existing engine stays as it is. `version`
    applies to the first package. The packages are removed with the host or its declaration only if
    `packages.remove` is true. `sandboxImage` is the image of each pod's sandbox container, for
    sites without access to `registry.k8s.io`.
    """

    packages: tuple[PackageName, ...] = Field(
        min_length=1,
        description="a list of package names, the engine's own first",
        examples=["[containerd]"],
    )
    version: (
        Annotated[StrictStr, AfterValidator(pattern(_VERSION, "a package's version", "2.3.7"))]
        | None
    ) = Field(default=None, description="a version of the first package", examples=["2.3.7"])
    repository: Repositories = Field(
        default=Repositories(), description="a mapping with apt and dnf: package repositories"
    )
    hold: StrictBool = Field(
        default=True,
        description="true or false: upgrades of the system leave the engine alone",
        examples=["false"],
    )
    sandbox_image: Image | None = Field(
        default=None,
        description="an image of Kubernetes' pause, as the hosts reach it",
        examples=["registry.example.com/pause:3.10.1"],
    )
    cri_dockerd: Archive | None = Field(
        default=None, description="engine docker: a mapping with locations and sha256"
    )
