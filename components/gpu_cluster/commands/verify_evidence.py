"""Run `gpu-cluster verify-evidence`: check evidence without a network.

It needs the evidence, the public key of whoever made it, and the stack file in this folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime

from gpu_cluster.commands.evidence import envelope
from gpu_cluster.commands.evidence.__main__ import counted, named_file
from gpu_cluster.commands.evidence.check import Declared, require_holds, totals
from gpu_cluster.commands.evidence.statement import LARGEST, EvidenceError, Statement, read
from gpu_cluster.commands.output import answering, say
from gpu_cluster.commands.stack import Stack
from gpu_cluster.desired.resolve import resolve
from gpu_rules.faults import Fault


def require_computed(counts: Mapping[str, int]) -> None:
    """Check that the evidence shows kernels that ran, and no simulated kernels.

    Raises:
        EvidenceError: A kernel was only simulated.
    """
    if counts["simulated"]:
        found = f"{counts['simulated']} GPUs whose kernel was only simulated"
        cure = "for the evidence of a lab: --simulated"
        raise EvidenceError(Fault("GPUs", found, "kernels that ran", cure))


def verified(text: bytes, key: bytes, stack: Stack, now: datetime, *, simulated: bool) -> Statement:
    """Return the statement of valid evidence.

    Args:
        text: Content of the evidence file.
        key: Public key of whoever made the evidence, in PEM.
        stack: The stack that the evidence must be about.
        now: Current time, UTC.
        simulated: True to accept kernels that were only simulated.

    Raises:
        EvidenceError: The evidence does not hold; the error says why.
    """
    statement = read(envelope.verified(text, envelope.public_key(key)))
    declared = Declared(
        stack=stack.name,
        file=stack.file.name,
        sha256=hashlib.sha256(stack.file.read_bytes()).hexdigest(),
        validation=resolve(stack.cluster, stack.name).validation,
    )
    require_holds(statement, declared, now)
    if not simulated:
        require_computed(totals(statement.predicate.nodes))
    return statement


def main(*, file: str = "", public: str = "", simulated: bool = False) -> None:
    """Check the evidence; exit with 1 and the reason if it is not valid.

    Args:
        file: File with the evidence.
        public: File with the public key of whoever made it.
        simulated: Whether kernels that were only simulated are accepted.
    """
    stack = Stack.current()
    with answering("verify-evidence") as json_output:
        statement = verified(
            named_file("--file", file, LARGEST + 1, "gpu-cluster evidence"),
            named_file("--public", public, envelope.KEY_LIMIT, envelope.MAKE_PUBLIC),
            stack,
            datetime.now(UTC),
            simulated=simulated,
        )
        predicate = statement.predicate
        json_output["evidence"] = statement.model_dump(mode="json", by_alias=True)
        say(
            f"verify-evidence: stack {predicate.stack}: {counted(totals(predicate.nodes))}, "
            f"made {predicate.made}, holds until {predicate.until}"
        )
