"""A private registry that stands for all others."""

from __future__ import annotations

from pydantic import Field, StrictBool

from components.base.image import Repository, path_of
from components.base.model import Model
from components.base.names import DnsSubdomain
from components.charts.digests import pinned


class RegistrySettings(Model):
    """`mirror`: every image is taken from there, under its own path: `nvcr.io/nvidia/driver:1`
    from `registry.example.com/gpu` is `registry.example.com/gpu/nvidia/driver:1`.

    `pullSecret`: the name of the Secret with its credentials, in each namespace of ours. It is
    made there from the stack's secret `gpu-cluster:registryCredentials` (a Docker configuration in
    JSON) where that is set, and taken for there otherwise.

    `digests`: images of their makers' own registries are deployed by the digest that is known of
    them (`make images`), beside the tag. Not with `mirror`: a copy of one platform has another.
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
        description="true or false: images by digest where their makers publish one",
        examples=["false"],
    )

    @property
    def pins(self) -> bool:
        """Whether images are deployed by digest."""
        return self.digests and self.mirror is None

    @property
    def pull_secrets(self) -> dict[str, list[dict[str, str]]]:
        """``imagePullSecrets`` of a pod; nothing where the registry asks for no credentials."""
        return {"imagePullSecrets": [{"name": self.pull_secret}]} if self.pull_secret else {}

    def deployed(self, image: str) -> str:
        """An image as pods name it: by its digest where that is known and holds."""
        return pinned(image) if self.pins else self.rewritten(image)

    def rewritten(self, image: str) -> str:
        """An image, or the repository of one, where it is to be taken from."""
        return f"{self.mirror}/{path_of(image)}" if self.mirror else image
