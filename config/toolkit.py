"""Where the NVIDIA container toolkit comes from."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from config.model import Model, Text, Truth
from config.problem import refuse, show
from config.versions import pattern

_URL = re.compile(r"(https?://[^/\s]|file:///)[!#-&(-\[\]-_a-{}~]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ARMOR = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_VERSION = r"1\.\d{1,2}\.\d{1,2}(-\d+)?"


def _url(text: str) -> str:
    if _URL.fullmatch(text) is None:
        raise refuse(
            show(text),
            "an https, http or file address without blanks, quotes and backslashes",
            "write it as https://mirror.example.org/libnvidia-container/stable/deb/{architecture}",
        )
    return text


def _armored(text: str) -> str:
    if not text.lstrip().startswith(_ARMOR):
        raise refuse(show(text[:40]), f"a text that begins with {_ARMOR}", "gpg --export --armor")
    return text.strip() + "\n"


def _sha256(text: str) -> str:
    if _SHA256.fullmatch(text) is None:
        raise refuse(show(text), "64 of 0-9 and a-f", "write what sha256sum prints")
    return text


Url = Annotated[Text, AfterValidator(_url)]


class Signed(StrEnum):
    """What dnf verifies; apt always verifies the metadata, which hold the packages' sums."""

    METADATA = "metadata"
    PACKAGES = "packages"
    BOTH = "both"


class Repository(Model):
    """One signed repository. In `url`, `{architecture}` is the host's as its package manager calls
    it, `{distribution}` NVIDIA's name of its distribution (rocky 9 is `rhel9.0`).
    """

    url: Url = Field(
        description="an https, http or file address", examples=["https://mirror.example.org/deb"]
    )
    suite: Annotated[
        Text, AfterValidator(pattern(r"[A-Za-z0-9./_-]+", "a suite such as stable or /", "/"))
    ] = Field(default="/", description="apt: a suite, or / for a flat repository", examples=["/"])
    key: Annotated[Text, AfterValidator(_armored)] | None = Field(
        default=None, description="the armored public key that signs it"
    )
    key_url: Url | None = Field(default=None, description="where the armored public key is")
    key_sha256: Annotated[Text, AfterValidator(_sha256)] | None = Field(
        default=None, description="the sha256 of what keyUrl gives"
    )
    signed: Signed = Field(
        default=Signed.METADATA, description="metadata, packages or both", examples=["metadata"]
    )

    @model_validator(mode="after")
    def _one_key(self) -> Repository:
        given = (self.key is not None, self.key_url is not None, self.key_sha256 is not None)
        if given not in ((True, False, False), (False, True, True)):
            raise refuse(
                "no signing key, or more than one",
                "key, or keyUrl and keySha256",
                "give the key that signs the repository",
            )
        return self

    @property
    def row(self) -> tuple[str, ...]:
        """Its words for the hosts' script (`components/scripts/packages.sh`)."""
        key = (self.key or "", self.key_url or "", self.key_sha256 or "")
        return (self.url, self.suite, "", *key, self.signed.value)


_OFFICIAL = "https://nvidia.github.io/libnvidia-container"
_KEY_SHA256 = "c880576d6cf75a48e5027a871bac70fd0421ab07d2b55f30877b21f1c87959c9"
"""Of the armored key C95B 321B 61E8 8C18 09C4 F759 DDCA E044 F796 ECB0, as served in 2026."""


def _official(path: str) -> Repository:
    return Repository(
        url=f"{_OFFICIAL}/stable/{path}/{{architecture}}",
        key_url=f"{_OFFICIAL}/gpgkey",
        key_sha256=_KEY_SHA256,
    )


class ToolkitSource(StrEnum):
    """`preinstalled`: on the host, only checked. `package`: from a signed repository."""

    PREINSTALLED = "preinstalled"
    PACKAGE = "package"


class Toolkit(Model):
    """`apt` and `dnf`: where packages come from, by the host's package manager; by default NVIDIA's
    own repositories. Packages stay when the host leaves the stack, unless `removePackages`.
    """

    source: ToolkitSource = Field(
        default=ToolkitSource.PREINSTALLED,
        description="preinstalled or package",
        examples=["package"],
    )
    version: (
        Annotated[Text, AfterValidator(pattern(_VERSION, "a version such as 1.20.0", "1.20.0"))]
        | None
    ) = Field(default=None, description="a version such as 1.20.0", examples=["1.20.0"])
    apt: Repository = Field(default=_official("deb"), description="a mapping: a repository")
    dnf: Repository = Field(default=_official("rpm"), description="a mapping: a repository")
    remove_packages: Truth = Field(
        default=False, description="true or false: undo removes the packages", examples=["false"]
    )
