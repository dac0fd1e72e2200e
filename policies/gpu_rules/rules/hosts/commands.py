"""Commands on hosts: Pulumi's `command:remote` resources as manifests of `command/remote`.

The fields are the inputs of pulumi-command 1.2.1 provider/pkg/provider/remote. A secret value
is wrapped in a mapping with the key `fn::secret` (`gpu_rules.rules.secret`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..rule import Subject
from ..secret import is_secret, reveal
from ..unknown import at

API_VERSION: Final = "command/remote"

TEXTS = ("create", "update", "delete", "stdin")


def connections_of(subject: Subject) -> Iterator[tuple[str, object, bool]]:
    """Yield a command's SSH connection and the connection of its SSH proxy.

    Each result has the path in the manifest, the inputs, and whether the inputs are secret.
    """
    if subject.group_version != API_VERSION:
        return
    declared_connection = subject.manifest.get("connection")
    connection, hidden = reveal(declared_connection), is_secret(declared_connection)
    if connection is None:
        return
    yield "connection", connection, hidden
    proxy = at(connection, "proxy")
    if proxy is not None:
        yield "connection.proxy", reveal(proxy), hidden or is_secret(proxy)
