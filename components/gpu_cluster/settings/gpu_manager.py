"""Section `gpuManager` of the stack file: TKEStack's gpu-manager, which shares GPUs between pods.

Sources: tkestack/gpu-manager 8cd842e (gpu-manager.yaml, cmd/manager/options/options.go) and
tkestack/gpu-admission 47d56ae (README); reserved resources: TKEStack documentation, "GPU".
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated

from pydantic import AfterValidator, Field, StrictStr

from gpu_cluster.base.address import Address
from gpu_cluster.base.image import Image
from gpu_cluster.base.model import Model
from gpu_rules.faults import refuse, show

# Flags that users must not set: the image's start script (gpu-manager, build/start.sh) or this
# program sets them.
_OURS = (
    "--container-runtime-endpoint",
    "--cgroup-driver",
    "--hostname-override",
    "--extra-config",
    "--volume-config",
    "--share-mode",
    "--query-addr",
    "--log-dir",
    "--incluster-mode",
    "--docker-endpoint",
)
# First version of gpu-manager that works with CRI runtimes; earlier versions work with Docker only
# (tkestack/gpu-manager v1.0.9 and v1.1.0, cmd/manager/options/options.go).
CRI = (1, 1, 0)
_FLAG = re.compile(r"--[a-z][a-z0-9-]*(=[A-Za-z0-9._:/,-]*)?")


def release_of(image: str) -> tuple[int, ...] | None:
    """Return the version in an image's tag, or None if the image has no tag of the form 1.2.3."""
    tag = re.search(r":v?(\d+)\.(\d+)\.(\d+)$", image)
    return tuple(map(int, tag.groups())) if tag else None


def _validate_flag(text: str) -> str:
    if _FLAG.fullmatch(text) is None:
        raise refuse(show(text), "one flag: --name or --name=value", "write --v=4")
    if text.split("=")[0] in _OURS:
        raise refuse(
            show(text),
            f"a flag that is not set already ({', '.join(_OURS)})",
            "leave it out; containerRuntimeEndpoint and runtime.systemdCgroup set two of them",
        )
    return text


def _validate_ip(text: str) -> str:
    """Return the text unchanged if it is an IP address, which a Service can have."""
    try:
        ip_address(text)
    except ValueError:
        raise refuse(
            show(text),
            "an IPv4 or IPv6 address",
            "write an address such as 10.96.0.200, or remove it",
        ) from None
    return text


def _validate_socket_path(text: str) -> str:
    if not re.fullmatch(r"/(?:[A-Za-z0-9._-]+/)*[A-Za-z0-9._-]+\.sock", text):
        raise refuse(
            show(text), "the path of a socket", "write /var/run/containerd/containerd.sock"
        )
    return text


class GpuManagerSettings(Model):
    """Settings of the DaemonSet `gpu-manager-daemonset` and the Deployment `gpu-quota-admission`.

    Both request 1 CPU and 1 GiB of memory, as TKEStack's documentation does. The program writes
    `extraFlags` into the container's variable `EXTRA_FLAGS`, together with the flags that the
    image's version needs: the runtime's endpoint and the cgroup driver, which gpu-manager does not
    detect, or `--incluster-mode` for versions before 1.1.0. The tags of the released images have no
    `v` before the version (file VERSION in gpu-manager's repository).

    `extenderAddress` is the IP address of the Service `gpu-quota-admission`. With a declared
    address, the scheduler can be configured before the first `pulumi up`, whose validation needs
    the scheduler extender. Without it the cluster assigns an address, and the validation waits
    until the scheduler is configured with that address.
    """

    image: Image = Field(
        default="tkestack/gpu-manager:1.1.5",
        description="an image reference with a tag or a digest",
        examples=["tkestack/gpu-manager:1.1.5"],
    )
    admission_image: Image = Field(
        default="tkestack/gpu-quota-admission:v1.0.0",
        description="an image reference with a tag or a digest",
        examples=["tkestack/gpu-quota-admission:v1.0.0"],
    )
    container_runtime_endpoint: Annotated[StrictStr, AfterValidator(_validate_socket_path)] = Field(
        default="/var/run/containerd/containerd.sock",
        description="the path of the container runtime's socket",
        examples=["/var/run/containerd/containerd.sock"],
    )
    extender_address: Annotated[Address, AfterValidator(_validate_ip)] | None = Field(
        default=None,
        description="an IP address of the cluster's Services",
        examples=["10.96.0.200"],
    )
    extra_flags: tuple[Annotated[StrictStr, AfterValidator(_validate_flag)], ...] = Field(
        default=("--logtostderr=false",),
        description="a list of gpu-manager's flags",
        examples=["[--logtostderr=false]"],
    )
