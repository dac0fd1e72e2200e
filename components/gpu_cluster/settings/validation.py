"""Section `validation` of the stack file: pods that run a CUDA kernel on each declared GPU."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, StrictInt, StrictStr, model_validator

from gpu_cluster.base.image import VECTORADD, Image
from gpu_cluster.base.model import Freeze, FrozenDict, Model
from gpu_cluster.base.names import DnsLabel, OwnNamespace
from gpu_cluster.settings.log_pattern import FIGURE
from gpu_cluster.settings.nodes.devices import GPU_LIMIT
from gpu_rules.faults import refuse, show

PATTERN_LIMIT = 200
"""Maximum length of a pattern, in characters."""
TESTS_LIMIT = 20
"""Maximum number of user-defined tests in a stack."""


class Busy(StrEnum):
    """Behavior of the validation for GPUs that other pods use."""

    DEFER = "defer"
    WAIT = "wait"
    FAIL = "fail"


def _validate_figure_pattern(text: str) -> str:
    if text.count(FIGURE) != 1 or len(text) > PATTERN_LIMIT or not text.isprintable():
        raise refuse(
            show(text),
            f"a line of the output with {FIGURE} once, in place of the number; at most "
            f"{PATTERN_LIMIT} characters",
            f'write "# Avg bus bandwidth : {FIGURE}", for example; * stands for any one word',
        )
    return text


class Test(Model):
    """A user-defined test program that runs on GPUs of one node, and the result that it must reach.

    `pattern` contains the words of the output line with the measured number; without a pattern only
    the exit code counts. Shared memory counts as part of the memory limit `memoryGi`.
    """

    image: Image = Field(
        description="an image reference with a tag or a digest", examples=[VECTORADD]
    )
    command: tuple[StrictStr, ...] = Field(
        min_length=1,
        description="a list: the program and its arguments",
        examples=['["all_reduce_perf", "-g", "8"]'],
    )
    gpus: StrictInt = Field(
        ge=1,
        le=GPU_LIMIT,
        description=f"a whole number from 1 to {GPU_LIMIT}, GPUs of one node",
        examples=[8],
    )
    pattern: Annotated[StrictStr, AfterValidator(_validate_figure_pattern)] | None = Field(
        default=None,
        description=f"words with {FIGURE}",
        examples=[f'"# Avg bus bandwidth : {FIGURE}"'],
    )
    minimum: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="a number, the least that the figure may be",
        examples=[350],
    )
    memory_gi: StrictInt = Field(
        default=16, ge=1, le=4096, description="a whole number from 1 to 4096, GiB", examples=[16]
    )
    timeout_seconds: StrictInt = Field(
        default=1800,
        ge=1,
        le=86400,
        description="a whole number from 1 to 86400, seconds",
        examples=[1800],
    )

    @model_validator(mode="after")
    def _figure_is_read(self) -> Test:
        if self.minimum is not None and self.pattern is None:
            raise refuse(
                f"minimum {self.minimum:g} without pattern",
                "a pattern, which says where the output has the number",
                f'add "pattern: bandwidth {FIGURE}", with the words that stand before the number',
            )
        return self


class ValidationSettings(Model):
    """Settings of the validation pods: each has a container per GPU, which runs `command`.

    The container prints the UUID of its GPU, runs `command`, and must print `Test PASSED`.
    `busy` sets what happens to GPUs that other pods use: a later run validates them (`defer`), this
    run waits up to `timeoutSeconds` for them (`wait`), or this run fails (`fail`). The validation
    never evicts a pod. If a declared driver is too old for the default `image`, or with platform
    gpu-manager, an older sample is the default. `podAnnotations` can prevent the injection of
    sidecars into validation pods.
    """

    image: Image = Field(
        default=VECTORADD,
        description="an image reference with a tag or a digest; it must have sh and `command`",
        examples=[VECTORADD],
    )
    command: tuple[StrictStr, ...] = Field(
        # Entry point of the sample image (NVIDIA/k8s-samples
        # deployments/container/Dockerfile.ubuntu).
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
        description="a whole number from 1 to 86400: seconds without progress of any node",
        examples=[600],
    )
    busy: Busy = Field(default=Busy.DEFER, description="defer, wait or fail", examples=["defer"])
    pod_annotations: Annotated[dict[StrictStr, StrictStr], Freeze] = Field(
        default=FrozenDict(),
        description="a mapping: annotations of the validation pods",
        examples=['{sidecar.istio.io/inject: "false"}'],
    )
    tests: Annotated[dict[DnsLabel, Test], Freeze] = Field(
        default=FrozenDict(),
        max_length=TESTS_LIMIT,
        description="a mapping of names to tests, run by `gpu-cluster validate --tests …` only",
    )
