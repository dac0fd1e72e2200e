"""The proof that each declared GPU runs a kernel."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictInt, StrictStr

from config.image import VECTORADD, Image
from config.model import Freeze, FrozenDict, Model
from config.names import OwnNamespace


class Busy(StrEnum):
    """What becomes of GPUs that others hold."""

    DEFER = "defer"
    WAIT = "wait"
    FAIL = "fail"


class Validation(Model):
    """A container per GPU prints its UUID, runs `command` and must print `Test PASSED`.

    `busy`: GPUs that other pods hold are left to a later run (`defer`), waited for as long as
    `timeoutSeconds` (`wait`), or fail the run (`fail`); no pod is ever evicted for them.
    `podAnnotations` keep injected sidecars off these pods.
    """

    image: Image = Field(
        default=VECTORADD,
        description="an image reference with a tag or a digest; it must have sh and `command`",
        examples=[VECTORADD],
    )
    command: tuple[StrictStr, ...] = Field(
        # The sample's entry point (NVIDIA/k8s-samples deployments/container/Dockerfile.ubuntu).
        default=("/cuda-samples/sample",),
        min_length=1,
        description="a list: the program that runs a kernel, and its arguments",
        examples=['["/cuda-samples/sample"]'],
    )
    namespace: OwnNamespace = Field(
        default="gpu-validation", description="a namespace", examples=["gpu-validation"]
    )
    timeout_seconds: StrictInt = Field(
        default=600,
        ge=1,
        le=86400,
        description="a whole number from 1 to 86400, seconds",
        examples=[600],
    )
    busy: Busy = Field(default=Busy.DEFER, description="defer, wait or fail", examples=["defer"])
    pod_annotations: Annotated[dict[StrictStr, StrictStr], Freeze] = Field(
        default=FrozenDict(),
        description="a mapping: annotations of the validation pods",
        examples=['{sidecar.istio.io/inject: "false"}'],
    )
