"""The question whether a container is privileged, in Python and as CEL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..pod_spec import Container
from ..rule import Finding
from ..unknown import at

IS_PRIVILEGED: Final = "c.?securityContext.?privileged.orValue(false)"
"""CEL that is true if the container `c` is privileged."""


def privileged(container: Container, reason: str, wanted: str) -> Iterator[Finding]:
    """Yield a finding if a container is privileged.

    Args:
        reason: In which pod the container may not be privileged, for the message.
        wanted: What the rule requires, for the message.
    """
    if at(container.spec, "securityContext", "privileged") is True:
        yield Finding(
            path=f"{container.path}.securityContext.privileged",
            found=f"true in a pod that {reason}",
            wanted=wanted,
            cure="Add only the capabilities that it needs: a privileged container sees all GPUs "
            "of the node.",
        )
