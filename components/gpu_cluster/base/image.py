"""References of container images, and their path without the registry."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, StrictStr

from gpu_rules.faults import refuse, show

_HOST = r"(?:[A-Za-z0-9-]+\.)*[A-Za-z0-9-]+(?::\d+)?"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*"
    r"(?P<tag>:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?P<digest>@sha256:[0-9a-f]{64})?"
)
_REPOSITORY = re.compile(rf"{_HOST}(?:/{_PART})*")

# Sample image that tests a GPU: CUDA vectorAdd, which prints `Test PASSED`. Source:
# NVIDIA/gpu-operator tests/gpu-pod.yaml.
VECTORADD = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04"
# Sample images for older drivers: CUDA 11.7 from driver 450 on (e2e tests of NVIDIA/dcgm-exporter)
# and CUDA 10.2 from driver 440 on (NVIDIA/k8s-device-plugin v0.13.0 README.md).
VECTORADD_CUDA_11 = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda11.7.1-ubuntu20.04"
VECTORADD_CUDA_10 = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda10.2"
SAMPLES = (VECTORADD, VECTORADD_CUDA_11, VECTORADD_CUDA_10)


def _validate_image(text: str) -> str:
    match = _REFERENCE.fullmatch(text)
    if match is None or not (match["tag"] or match["digest"]):
        raise refuse(
            show(text),
            "an image reference with a tag or a digest",
            f"write an image such as {VECTORADD}",
        )
    return text


def _validate_repository(text: str) -> str:
    if "://" in text or _REPOSITORY.fullmatch(text.rstrip("/")) is None or text.endswith("/"):
        raise refuse(
            show(text),
            "a registry, with a path or without: host[:port][/path]",
            "write registry.example.com/nvidia, for example",
        )
    return text


Image = Annotated[StrictStr, AfterValidator(_validate_image)]
Repository = Annotated[StrictStr, AfterValidator(_validate_repository)]


def path_of(image: str) -> str:
    """Return an image name without its registry: `nvidia/driver:1` for `nvcr.io/nvidia/driver:1`.

    The first part is a registry if it contains a dot or a port, or is `localhost`
    (distribution/reference, `splitDockerDomain`). A name without any slash belongs to `library/`
    on docker.io.
    """
    first, slash, path = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return path
    return image if slash else f"library/{image}"
