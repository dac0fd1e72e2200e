"""Section `driverInstaller` of the stack file: a DaemonSet that installs the NVIDIA driver.

The installer is that of kubespray. Names and defaults, such as the addresses of downloads and the
memory of the device plugin, come from kubespray's role container_engine_accelerator/nvidia_gpu.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StrictStr, model_validator

from gpu_cluster.base.image import Image
from gpu_cluster.base.model import Freeze, FrozenDict, Model
from gpu_cluster.base.names import OwnNamespace, PoolName
from gpu_cluster.base.versions import pattern
from gpu_rules.faults import refuse, show

_VERSION = r"\d{3}\.\d{1,3}(\.\d{1,2})?"
_QUANTITY = r"[1-9]\d*(Ki|Mi|Gi)"


class Flavor(StrEnum):
    """Product line of the GPUs; it selects the address that the driver is downloaded from."""

    TESLA = "tesla"
    GTX = "gtx"


class OperatingSystem(StrEnum):
    """Operating system of the nodes; the installer compiles kernel modules with its tools."""

    UBUNTU = "ubuntu"
    CENTOS = "centos"


# Download address of each product line (kubespray's defaults nvidia_gpu_*_base_url; https in both).
BASE_URLS: FrozenDict[Flavor, str] = FrozenDict(
    {
        Flavor.TESLA: "https://us.download.nvidia.com/tesla/",
        Flavor.GTX: "https://us.download.nvidia.com/XFree86/Linux-x86_64/",
    }
)
# Path below the base address; kubespray's default nvidia_url_end.
FILE = "{version}/NVIDIA-Linux-x86_64-{version}.run"


def _by_digest(text: str) -> str:
    if "@sha256:" not in text:
        raise refuse(
            show(text),
            "an image by digest: it runs privileged, and a tag may be moved",
            "write a value such as registry.example.com/driver-installer@sha256:…",
        )
    return text


def _validate_base_url(text: str) -> str:
    url = urlsplit(text)
    if url.scheme != "https" or not url.netloc or not text.endswith("/"):
        raise refuse(
            show(text),
            "an https address that ends with /: the driver runs in the kernel",
            "write an address such as https://us.download.nvidia.com/tesla/",
        )
    return text


def _validate_file_name(text: str) -> str:
    if "{version}" not in text or text.startswith("/"):
        raise refuse(
            show(text),
            "the file's path below the base address, with {version} in it",
            f"write {FILE}",
        )
    return text


class PoolDriver(Model):
    """Driver settings of one pool; omitted fields have the values that all pools share."""

    flavor: Flavor | None = Field(default=None, description="tesla or gtx", examples=["gtx"])
    os: OperatingSystem | None = Field(
        default=None, description="ubuntu or centos", examples=["centos"]
    )
    version: (
        Annotated[
            StrictStr,
            AfterValidator(pattern(_VERSION, "a driver version such as 595.91.07", "595.91.07")),
        ]
        | None
    ) = Field(default=None, description="a driver version", examples=["595.91.07"])


class DriverInstallerSettings(Model):
    """Settings of the DaemonSets `nvidia-driver-installer-<pool>`, one for each pool with GPUs.

    The driver's address is `baseUrls[flavor]` followed by `file`, in which `{version}` is replaced.
    The version is `version` of the section `driver`, unless `pools` sets another one for the pool.
    `images` has no default, because an installer image contains the compiler of one release of one
    operating system. `pluginMemory` is the memory request and limit of the device plugin that is
    installed with the driver; a memory value in `devicePlugin.resources` takes precedence.
    """

    namespace: OwnNamespace = Field(
        default="nvidia-driver", description="a namespace", examples=["nvidia-driver"]
    )
    flavor: Flavor = Field(default=Flavor.TESLA, description="tesla or gtx", examples=["tesla"])
    os: OperatingSystem = Field(
        default=OperatingSystem.UBUNTU, description="ubuntu or centos", examples=["ubuntu"]
    )
    images: Annotated[
        dict[OperatingSystem, Annotated[Image, AfterValidator(_by_digest)]], Freeze
    ] = Field(
        default=FrozenDict({}),
        description="a mapping of ubuntu and centos to images by digest",
        examples=[f"{{ubuntu: registry.example.com/driver@sha256:{64 * '0'}}}"],
    )
    base_urls: Annotated[
        dict[Flavor, Annotated[StrictStr, AfterValidator(_validate_base_url)]], Freeze
    ] = Field(
        default=BASE_URLS,
        description="a mapping of tesla and gtx to addresses",
        examples=["{tesla: https://mirror.example.com/tesla/}"],
    )
    file: Annotated[StrictStr, AfterValidator(_validate_file_name)] = Field(
        default=FILE, description="a path with {version}", examples=[FILE]
    )
    plugin_memory: Annotated[
        StrictStr, AfterValidator(pattern(_QUANTITY, "an amount of memory such as 30Mi", "30Mi"))
    ] = Field(default="30Mi", description="an amount of memory such as 30Mi", examples=["30Mi"])
    pools: Annotated[dict[PoolName, PoolDriver], Freeze] = Field(
        default=FrozenDict({}),
        description="a mapping of pool names to what they have for themselves",
    )

    @model_validator(mode="after")
    def _everything_has_an_address(self) -> DriverInstallerSettings:
        for pool in (PoolDriver(), *self.pools.values()):
            flavor = pool.flavor or self.flavor
            if flavor not in self.base_urls:
                raise refuse(
                    f"no base address for {flavor}",
                    "an address for each flavour in use",
                    f"add baseUrls.{flavor}",
                )
        return self

    def image_of(self, pool: str) -> str:
        """Return the installer image for the operating system of a pool."""
        return self.images[self.system_of(pool)]

    def system_of(self, pool: str) -> OperatingSystem:
        """Return the operating system of a pool's nodes."""
        return self.pools.get(pool, PoolDriver()).os or self.os

    def version_of(self, pool: str, version: str | None) -> str | None:
        """Return the driver version of a pool, or the argument `version` if the pool sets none."""
        return self.pools.get(pool, PoolDriver()).version or version

    def url_of(self, pool: str, version: str) -> str:
        """Return the URL of the driver's installer file for a pool."""
        flavor = self.pools.get(pool, PoolDriver()).flavor or self.flavor
        return self.base_urls[flavor] + self.file.replace("{version}", version)
