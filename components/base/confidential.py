"""Secrets that stand in plain text where everybody reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.faults import WITH_USER, Fault, Location, fault, show

_WORDS = ("privatekey", "password", "passphrase", "token", "secret", "credential")


def is_confidential(key: str) -> bool:
    """Whether a key's name says that its value is a secret."""
    plain = key.lower().replace("-", "").replace("_", "")
    return plain == "secure" or any(word in plain for word in _WORDS)


def refused(location: Location, where: str, key: str = "sshPrivateKey") -> Fault:
    """The problem of a secret at a place; its value is not repeated."""
    return fault(
        location,
        f"a secret {where} (not repeated here)",
        "secrets only under keys of their own, encrypted",
        "remove it here (it is known to all who read this file), make a new one, and run"
        f" `pulumi config set --secret gpu-cluster:{key} < key`",
    )


def in_plain_text(settings: Mapping[str, Any]) -> Iterator[Fault]:
    """The product's own secrets in a stack file's `config` that are not encrypted."""
    for name, value in settings.items():
        namespace, _, key = str(name).partition(":")
        encrypted = isinstance(value, Mapping) and set(value) == {"secure"}
        if namespace == "gpu-cluster" and is_confidential(key) and not encrypted:
            yield refused(("config", name), "in plain text", key)


def in_addresses(value: object, location: Location = ()) -> Iterator[Fault]:
    """Users and passwords in addresses: they would go into the state, diffs and hosts' files."""
    if isinstance(value, str) and WITH_USER.search(value):
        yield fault(
            location,
            show(value),
            "an address without them",
            "remove them (they are known to all who read this file), and give hosts their access "
            "on the hosts: apt's auth.conf.d, dnf's client certificate, or by address",
        )
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from in_addresses(item, (*location, str(key)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from in_addresses(item, (*location, index))
