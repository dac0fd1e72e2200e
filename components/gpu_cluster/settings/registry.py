"""Section `registry` of the stack file: a private registry that replaces all public registries."""

from __future__ import annotations

from pydantic import Field, StrictBool

from gpu_cluster.base.image import Repository, path_of
from gpu_cluster.base.model import Model
from gpu_cluster.base.names import DnsSubdomain
from gpu_cluster.charts.digests import pinned


class RegistrySettings(Model):
    """Settings of the registry that container images are pulled from.

    `mirror` replaces the registry in every image name and keeps the path: with the mirror
    `registry.example.com/gpu`, the image `nvcr.io/nvidia/driver:1` becomes
    `registry.example.com/gpu/nvidia/driver:1`.

    `pullSecret` names the Secret with the registry's credentials in each namespace that this
    program creates. The program creates the Secret if the stack has the secret
    `gpu-cluster:registryCredentials` (a Docker configuration in JSON), and expects an existing
    Secret otherwise.

    `digests` adds the known digest (from `gpu-cluster images`) to the tag of images from their
    vendors' registries. It has no effect with `mirror`, because a copy of only one architecture of
    an image has another digest.
    """

    mirror: Repository | None = Field(
        default=None,
        description="a registry such as registry.example.com/gpu",
        examples=["registry.example.com/gpu"],
    )
    pull_secret: DnsSubdomain | None = Field(
        default=None, description="the name of a Secret", examples=["registry-credentials"]
    )
    digests: StrictBool = Field(
        default=True,
        description="true or false: pull images by digest if their publisher publishes digests",
        examples=["false"],
    )

    @property
    def pins(self) -> bool:
        """Return True if images are deployed by digest."""
        return self.digests and self.mirror is None

    @property
    def pull_secrets(self) -> dict[str, list[dict[str, str]]]:
        """Return the field `imagePullSecrets` of a pod spec; an empty mapping without a Secret."""
        return {"imagePullSecrets": [{"name": self.pull_secret}]} if self.pull_secret else {}

    def deployed(self, image: str) -> str:
        """Return the image name for a pod spec, with the image's digest if known and in use."""
        return pinned(image) if self.pins else self.rewritten(image)

    def rewritten(self, image: str) -> str:
        """Return the name of an image or repository with the mirror in place of its registry."""
        return f"{self.mirror}/{path_of(image)}" if self.mirror else image
