"""Section `charts` of the stack file: where Helm charts come from."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, StrictStr, model_validator

from gpu_cluster.base.model import Freeze, FrozenDict, Model
from gpu_cluster.base.versions import pattern
from gpu_rules.faults import refuse, show


def _validate_oci_address(text: str) -> str:
    if not text.startswith("oci://") or text.endswith("/") or len(text) < len("oci://x"):
        raise refuse(
            show(text),
            "an OCI registry and path, oci://host/path",
            "write oci://registry.example.com/charts, for example",
        )
    return text


Digest = Annotated[
    StrictStr, AfterValidator(pattern(r"sha256:[0-9a-f]{64}", "sha256: and 64 hex", "sha256:…"))
]


class ChartsSettings(Model):
    """Settings that replace the vendors' chart repositories by a directory or an OCI registry.

    `directory` is a path that contains each chart as a folder. `oci` is a registry that contains
    the charts. Without either, each chart is fetched from its vendor's repository. `digests` maps
    a chart's name to the SHA-256 digest that the chart must have: the digest of its archive
    (`<chart>-<version>.tgz`) in a directory or a repository, or of its manifest in a registry.
    """

    directory: StrictStr | None = Field(
        default=None,
        min_length=1,
        description="the path of a directory with the charts",
        examples=["charts"],
    )
    oci: Annotated[StrictStr, AfterValidator(_validate_oci_address)] | None = Field(
        default=None,
        description="an OCI registry and path, oci://host/path",
        examples=["oci://registry.example.com/charts"],
    )
    digests: Annotated[dict[str, Digest], Freeze] = Field(
        default=FrozenDict(),
        description="a mapping of charts to sha256:… of what they must be",
        examples=[f"{{gpu-operator: sha256:{64 * '0'}}}"],
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.directory is not None and self.oci is not None:
            raise refuse(
                "both directory and oci", "one place for charts", "remove directory, or remove oci"
            )
        return self
