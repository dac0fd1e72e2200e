"""Signed package repositories for apt and dnf."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, StrictStr, model_validator

from gpu_cluster.base.model import Model
from gpu_cluster.base.versions import pattern
from gpu_rules.faults import refuse, show

URL = re.compile(r"(https?://[^/\s]|file:///)[!#-&(-\[\]-_a-{}~]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ARMOR = "-----BEGIN PGP PUBLIC KEY BLOCK-----"


def _validate_repository_url(text: str) -> str:
    if URL.fullmatch(text) is None:
        raise refuse(
            show(text),
            "an https, http or file address without blanks, quotes and backslashes",
            "write a value such as https://mirror.example.org/debian12",
        )
    return text


def _validate_armored_key(text: str) -> str:
    if not text.lstrip().startswith(_ARMOR):
        cure = "write what `gpg --export --armor` prints"
        raise refuse(show(text[:40]), f"a text that begins with {_ARMOR}", cure)
    return text.strip()


def _validate_sha256(text: str) -> str:
    if _SHA256.fullmatch(text) is None:
        raise refuse(
            show(text),
            "a SHA-256 digest: 64 characters of 0-9 and a-f",
            "write what sha256sum prints",
        )
    return text


Url = Annotated[StrictStr, AfterValidator(_validate_repository_url)]
Sha256 = Annotated[StrictStr, AfterValidator(_validate_sha256)]


class Signed(StrEnum):
    """Signatures that dnf verifies; apt always verifies the signature of the metadata."""

    METADATA = "metadata"
    PACKAGES = "packages"
    BOTH = "both"


class Key(Model):
    """A public key of a repository, and the SHA-256 checksum that the downloaded key must have."""

    url: Url = Field(
        description="URL or path of the ASCII-armored public key",
        examples=["https://mirror.example.org/key.asc"],
    )
    sha256: Sha256 = Field(
        description="the sha256 of what url gives", examples=["64 of 0-9 and a-f"]
    )


class Repository(Model):
    """One package repository and the keys that sign it; unsigned repositories are not supported.

    If different keys sign metadata and packages (as in Kubernetes' former dnf repositories), `key`
    contains both keys one after the other, or `keys` lists their URLs.
    """

    url: Url = Field(
        description="an https, http or file address", examples=["https://mirror.example.org/deb"]
    )
    suite: Annotated[
        StrictStr, AfterValidator(pattern(r"[A-Za-z0-9./_-]+", "a suite such as stable or /", "/"))
    ] = Field(default="/", description="apt: a suite, or / for a flat repository", examples=["/"])
    components: Annotated[
        StrictStr,
        AfterValidator(pattern(r"[a-z0-9-]*( [a-z0-9-]+)*", "words such as main", "main")),
    ] = Field(
        default="",
        description="apt: components, none for a flat repository",
        examples=["main contrib"],
    )
    key: Annotated[StrictStr, AfterValidator(_validate_armored_key)] | None = Field(
        default=None,
        description="the armored public key that signs it",
        examples=["-----BEGIN PGP PUBLIC KEY BLOCK-----…"],
    )
    key_url: Url | None = Field(
        default=None,
        description="URL or path of the ASCII-armored public key",
        examples=["https://mirror.example.org/key.asc"],
    )
    key_sha256: Sha256 | None = Field(
        default=None, description="the sha256 of what keyUrl gives", examples=["64 of 0-9 and a-f"]
    )
    keys: tuple[Key, ...] = Field(
        default=(), max_length=8, description="a list of url and sha256, for more than one key"
    )
    signed: Signed = Field(
        default=Signed.BOTH, description="metadata, packages or both", examples=["both"]
    )

    @model_validator(mode="after")
    def _one_key(self) -> Repository:
        declared = (self.key is not None, self.key_url is not None, self.key_sha256 is not None)
        is_one_key = declared in ((True, False, False), (False, True, True))
        if is_one_key == bool(self.keys) or (self.keys and any(declared)):
            raise refuse(
                "no signing key, or more than one",
                "key, or keyUrl and keySha256, or keys",
                "add key: the text of the key that signs the repository, or keyUrl and keySha256 "
                "alone",
            )
        return self

    @property
    def row(self) -> tuple[str, ...]:
        """Return the repository's fields as arguments of `hosts/steps/packages.sh`."""
        urls = [key.url for key in self.keys] or [self.key_url or ""]
        sums = [key.sha256 for key in self.keys] or [self.key_sha256 or ""]
        key = (self.key or "", " ".join(urls), " ".join(sums))
        return (self.url, self.suite, self.components, *key, self.signed.value)


class Repositories(Model):
    """Repositories by package manager; None means the repositories that the host has configured."""

    apt: Repository | None = Field(default=None, description="a mapping with url and a key")
    dnf: Repository | None = Field(default=None, description="a mapping with url and a key")
