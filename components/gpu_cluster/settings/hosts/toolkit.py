"""Settings of the NVIDIA Container Toolkit on hosts."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, StrictStr

from gpu_cluster.base.model import Model
from gpu_cluster.base.versions import pattern
from gpu_cluster.settings.hosts.repository import Repository, Signed
from gpu_rules.facts.floors import Software, below, floor, wanted
from gpu_rules.faults import refuse, show

_VERSION = r"1\.\d{1,2}\.\d{1,2}(-\d+)?"
_WANTED = f"a version from {floor(Software.TOOLKIT).fixed} on"
"""Accepted versions; the minimum is at least 1.18, which introduced drop-in files."""

_is_version = pattern(_VERSION, _WANTED, "1.20.2")


def _validate_toolkit_version(text: str) -> str:
    """Return the version; reject a version with a vulnerability from a security bulletin."""
    _is_version(text)
    if border := below(Software.TOOLKIT, text):
        cure = f"declare that version: {border}"
        raise refuse(show(text), wanted(Software.TOOLKIT, text, border), cure)
    return text


_OFFICIAL = "https://nvidia.github.io/libnvidia-container"
_KEY_SHA256 = "c880576d6cf75a48e5027a871bac70fd0421ab07d2b55f30877b21f1c87959c9"
"""SHA-256 of the armored key C95B 321B 61E8 8C18 09C4 F759 DDCA E044 F796 ECB0 (2026)."""


def _official_repository(path: str) -> Repository:
    return Repository(
        url=f"{_OFFICIAL}/stable/{path}/{{architecture}}",
        key_url=f"{_OFFICIAL}/gpgkey",
        key_sha256=_KEY_SHA256,
        signed=Signed.METADATA,
    )


class ToolkitSource(StrEnum):
    """Source of the toolkit.

    `preinstalled`: the toolkit is already on the host and is only checked. `package`: a signed
    package repository.
    """

    PREINSTALLED = "preinstalled"
    PACKAGE = "package"


class Toolkit(Model):
    """Settings of the NVIDIA Container Toolkit.

    `apt` and `dnf` are the repositories by package manager, by default NVIDIA's own. In their
    `url`, `{architecture}` becomes the architecture in the package manager's notation, and
    `{distribution}` becomes NVIDIA's name of the distribution (`rhel9.0` on Rocky Linux 9). The
    packages stay when the host leaves the stack, unless `removePackages` is true.
    """

    source: ToolkitSource = Field(
        default=ToolkitSource.PREINSTALLED,
        description="preinstalled or package",
        examples=["package"],
    )
    version: Annotated[StrictStr, AfterValidator(_validate_toolkit_version)] | None = Field(
        default=None, description=_WANTED, examples=["1.20.2"]
    )
    apt: Repository = Field(
        default=_official_repository("deb"), description="a mapping: a repository"
    )
    dnf: Repository = Field(
        default=_official_repository("rpm"), description="a mapping: a repository"
    )
    remove_packages: StrictBool = Field(
        default=False, description="true or false: undo removes the packages", examples=["false"]
    )
