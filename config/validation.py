"""The proof that each declared GPU runs a kernel."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from config.model import Model, Text, Whole
from config.names import DnsLabel
from config.problem import refuse, show

# The CUDA vectorAdd sample, which prints `Test PASSED`; NVIDIA/gpu-operator tests/gpu-pod.yaml.
IMAGE = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04"

_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:(?:[A-Za-z0-9-]+\.)*[A-Za-z0-9-]+(?::\d+)?/)?{_PART}(?:/{_PART})*"
    r"(?P<tag>:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?P<digest>@sha256:[0-9a-f]{64})?"
)


def _image(text: str) -> str:
    match = _IMAGE.fullmatch(text)
    if match is None or not (match["tag"] or match["digest"]):
        raise refuse(
            show(text),
            "an image reference with a tag or a digest",
            f"write an image such as {IMAGE}",
        )
    return text


class Validation(Model):
    """A pod per node asks for all its GPUs and must print `Test PASSED`."""

    image: Annotated[Text, AfterValidator(_image)] = Field(
        default=IMAGE, description="an image reference with a tag or a digest", examples=[IMAGE]
    )
    namespace: DnsLabel = Field(
        default="gpu-validation", description="a namespace", examples=["gpu-validation"]
    )
    timeout_seconds: Whole = Field(
        default=600,
        ge=1,
        le=86400,
        description="a whole number from 1 to 86400, seconds",
        examples=[600],
    )
