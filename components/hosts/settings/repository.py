"""A signed package repository, or the mirror of one."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from config.model import Model, Text
from config.problem import refuse, show
from config.versions import pattern

URL = re.compile(r"(https?://[^/\s]|file:///)[!#-&(-\[\]-_a-{}~]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ARMOR = "-----BEGIN PGP PUBLIC KEY BLOCK-----"


def _url(text: str) -> str:
    if URL.fullmatch(text) is None:
        raise refuse(
            show(text),
            "an https, http or file address without blanks, quotes and backslashes",
            "write it as https://mirror.example.org/debian12",
        )
    return text


def _armored(text: str) -> str:
    if not text.lstrip().startswith(_ARMOR):
        raise refuse(show(text[:40]), f"a text that begins with {_ARMOR}", "gpg --export --armor")
    return text.strip()


def _sha256(text: str) -> str:
    if _SHA256.fullmatch(text) is None:
        raise refuse(show(text), "64 of 0-9 and a-f", "write what sha256sum prints")
    return text


Url = Annotated[Text, AfterValidator(_url)]
Sha256 = Annotated[Text, AfterValidator(_sha256)]


class Signed(StrEnum):
    """What dnf verifies; apt always verifies the metadata, which hold the packages' sums."""

    METADATA = "metadata"
    PACKAGES = "packages"
    BOTH = "both"


class Repository(Model):
    """One repository and the key that signs it. Unsigned repositories can't be declared."""

    url: Url = Field(
        description="an https, http or file address", examples=["https://mirror.example.org/deb"]
    )
    suite: Annotated[
        Text, AfterValidator(pattern(r"[A-Za-z0-9./_-]+", "a suite such as stable or /", "/"))
    ] = Field(default="/", description="apt: a suite, or / for a flat repository", examples=["/"])
    components: Annotated[
        Text, AfterValidator(pattern(r"[a-z0-9-]*( [a-z0-9-]+)*", "words such as main", "main"))
    ] = Field(default="", description="apt: components, none for a flat repository")
    key: Annotated[Text, AfterValidator(_armored)] | None = Field(
        default=None, description="the armored public key that signs it"
    )
    key_url: Url | None = Field(default=None, description="where the armored public key is")
    key_sha256: Sha256 | None = Field(default=None, description="the sha256 of what keyUrl gives")
    signed: Signed = Field(
        default=Signed.BOTH, description="metadata, packages or both", examples=["both"]
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
        """Its words for the hosts' script (`components/hosts/steps/packages.sh`)."""
        key = (self.key or "", self.key_url or "", self.key_sha256 or "")
        return (self.url, self.suite, self.components, *key, self.signed.value)


class Repositories(Model):
    """By the host's package manager. Without one, what the host itself has configured is used."""

    apt: Repository | None = Field(default=None, description="a mapping with url and a key")
    dnf: Repository | None = Field(default=None, description="a mapping with url and a key")
