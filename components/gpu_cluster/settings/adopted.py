"""Section `adopted` of the stack file: GPU software that ran before the stack existed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, StrictStr, model_validator

from gpu_cluster.base.model import FrozenDict, Model
from gpu_cluster.base.names import DnsLabel, DnsSubdomain
from gpu_cluster.base.versions import pattern
from gpu_cluster.charts.extra_values import ExtraValues, frozen
from gpu_rules.faults import refuse, show

# Helm's limit for the name of a release (helm v3.18.6, pkg/chartutil/validate_name.go).
RELEASE_LIMIT = 53
_VERSION = r"v?\d{1,4}\.\d{1,4}\.\d{1,4}([-+][0-9A-Za-z.+-]{1,64})?"
_KINDS = ("DaemonSet",)


def _validate_release_name(text: str) -> str:
    if len(text) > RELEASE_LIMIT:
        raise refuse(
            show(text),
            f"the name of a Helm release, at most {RELEASE_LIMIT} characters",
            "write a name such as gpu-operator; `helm list -A` prints it",
        )
    return text


def _validate_manifest(value: Mapping[str, Any]) -> Any:
    metadata = value.get("metadata")
    has_names = isinstance(metadata, Mapping) and all(
        isinstance(metadata.get(key), str) for key in ("name", "namespace")
    )
    spec = value.get("spec")
    selector = spec.get("selector") if isinstance(spec, Mapping) else None
    labels = selector.get("matchLabels") if isinstance(selector, Mapping) else None
    is_known_kind = value.get("apiVersion") == "apps/v1" and value.get("kind") in _KINDS
    if not (is_known_kind and has_names and isinstance(labels, Mapping) and labels):
        raise refuse(
            f"{show(value.get('kind'))} of {show(value.get('apiVersion'))}",
            "the manifest of a DaemonSet of apps/v1 with name, namespace and selector.matchLabels",
            "run `gpu-cluster adopt`, which writes this section",
        )
    return frozen(value)


Manifest = Annotated[dict[str, Any], AfterValidator(_validate_manifest)]


class AdoptedRelease(Model):
    """A Helm release that somebody installed before the stack existed.

    The release keeps its name, its namespace, its chart's version and its values. The stack
    upgrades the release if the version or a value changes in the stack file.
    """

    name: Annotated[DnsSubdomain, AfterValidator(_validate_release_name)] = Field(
        description="the name that `helm list -A` prints", examples=["nvdp"]
    )
    namespace: DnsLabel = Field(
        description="the namespace that `helm list -A` prints", examples=["kube-system"]
    )
    version: Annotated[
        StrictStr,
        AfterValidator(pattern(_VERSION, "a version", "0.17.1")),
    ] = Field(description="the chart's version", examples=["0.17.1"])
    values: ExtraValues = Field(
        default=FrozenDict(),
        description="a mapping: all values of the release, as `helm get values` prints them",
        examples=["{gfd: {enabled: true}}"],
    )


class AdoptedSettings(Model):
    """GPU software that the stack took over: a Helm release, or objects of plain manifests.

    With the section `adopted`, the platform's section only describes the software, such as how it
    shares GPUs. The Helm values come from the section `adopted`.
    """

    release: AdoptedRelease | None = Field(
        default=None, description="a mapping with name, namespace, version and values"
    )
    objects: tuple[Manifest, ...] = Field(
        default=(),
        max_length=16,
        description="a list of manifests of DaemonSets",
        examples=[
            "[{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: nvidia-device-plugin}}]"
        ],
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.release is None) == (not self.objects):
            raise refuse(
                "neither release nor objects" if self.release is None else "release and objects",
                "one of them: a Helm release, or objects of plain manifests",
                "run `gpu-cluster adopt`, which writes this section",
            )
        return self
