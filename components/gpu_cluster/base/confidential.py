"""Find secrets that a stack file contains in plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_rules.faults import WITH_USER, Fault, Location, fault, show

_WORDS = ("privatekey", "password", "passphrase", "token", "secret", "credential")


def is_confidential(key: str) -> bool:
    """Return True if the name of a key suggests that its value is a secret."""
    plain = key.lower().replace("-", "").replace("_", "")
    return plain == "secure" or any(word in plain for word in _WORDS)


def refused(location: Location, place: str, key: str = "sshPrivateKey") -> Fault:
    """Return the fault for a secret in plain text; the fault does not contain the secret."""
    return fault(
        location,
        f"a secret {place} (not repeated here)",
        "secrets only under separate keys, encrypted",
        "remove it here (everybody who can read this file knows it), create a new one, and run"
        f" `pulumi config set --secret gpu-cluster:{key} < key`",
    )


def in_plain_text(settings: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield a fault for each unencrypted secret of this program in a stack file's `config`."""
    for name, value in settings.items():
        namespace, _, key = str(name).partition(":")
        encrypted = isinstance(value, Mapping) and set(value) == {"secure"}
        if namespace == "gpu-cluster" and is_confidential(key) and not encrypted:
            yield refused(("config", name), "in plain text", key)


def in_addresses(value: object, location: Location = ()) -> Iterator[Fault]:
    """Yield a fault for each address that contains a user name or a password.

    Such an address would be copied into the Pulumi state, into diffs and into files on hosts.
    """
    if isinstance(value, str) and WITH_USER.search(value):
        yield fault(
            location,
            show(value),
            "an address without user and password",
            "remove both (everybody who can read this file knows them), and give the hosts "
            "access themselves: by apt's auth.conf.d, dnf's client certificate, or the host's "
            "address",
        )
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from in_addresses(item, (*location, str(key)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from in_addresses(item, (*location, index))
