"""Run `gpu-cluster evidence`: sign what the validation of a stack found.

It only reads, and refuses a stack that differs from its file or that must be validated again. The
file that it writes is checked by `gpu-cluster verify-evidence`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path

from pulumi import automation

from gpu_cluster.change.document import Document, Outcome
from gpu_cluster.change.file import replace_text
from gpu_cluster.commands import status
from gpu_cluster.commands.engine import select
from gpu_cluster.commands.evidence import collect, envelope
from gpu_cluster.commands.evidence.check import LONGEST, totals
from gpu_cluster.commands.evidence.statement import (
    TIME,
    EvidenceError,
    Figure,
    Predicate,
    statement,
)
from gpu_cluster.commands.files import new_file
from gpu_cluster.commands.output import answering, say
from gpu_cluster.commands.report.__main__ import figures_of
from gpu_cluster.commands.stack import Stack
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.inspection.extent import Extent
from gpu_cluster.inspection.observed_cluster import gpu_nodes
from gpu_cluster.kubernetes.api import connect
from gpu_cluster.platforms.base import Platform
from gpu_rules.faults import Fault
from gpu_rules.printable import printable

FILE = "evidence-{stack}.json"
"""Name of the file with the evidence, if the user names no other."""
DAYS = 30
"""Number of days for which evidence holds, if the user names no other."""


def validity(text: str) -> int:
    """Return the number of days for which the evidence is valid.

    Args:
        text: The number as the user typed it; empty for the default.

    Raises:
        EvidenceError: The text is not a number in the accepted range.
    """
    if not text:
        return DAYS
    if text.isascii() and text.isdecimal() and 1 <= int(text[:6]) <= LONGEST:
        return int(text[:6])
    cure = f"leave it out for {DAYS}"
    raise EvidenceError(Fault("--days", printable(text, 40), f"1 to {LONGEST}", cure))


def named_file(option: str, path: str, limit: int, command: str) -> bytes:
    """Return the content of a file that an option names.

    Args:
        option: The option.
        path: Its value.
        limit: Maximum number of bytes to read.
        command: Command that writes such a file, for the error's cure.

    Raises:
        EvidenceError: No file is named, or it can't be read.
    """
    try:
        with Path(path).open("rb") as file:
            return file.read(limit)
    except OSError as error:
        fault_text = f"{printable(path, 200)}, {error.strerror}" if path else "nothing"
        cure = f"name the file with {option}; `{command}` writes such a file"
        raise EvidenceError(Fault(option, fault_text, "a file that can be read", cure)) from None


def require_clean(document: Document) -> None:
    """Check that a stack is deployed as its file declares, and was completely inspected.

    Raises:
        EvidenceError: Something drifted, is due or at fault, or was not inspected.
    """
    if document.outcome is Outcome.FAILED:
        fault_text = printable(document.cause)
        raise EvidenceError(
            Fault(
                f"stack {document.stack}",
                fault_text,
                "a stack without faults",
                "see `gpu-cluster status`",
            )
        )
    if any(cluster.is_changed for cluster in document.clusters):
        wanted_text, cure = (
            "a stack that is deployed as its file declares",
            "run `gpu-cluster up`, then make the evidence",
        )
        fault_text = status.last_line(document)
        raise EvidenceError(Fault(f"stack {document.stack}", fault_text, wanted_text, cure))


async def _kubernetes_version(context: str) -> str:
    async with connect(context) as client:
        return await client.server_version()


def _software_versions(context: str, platform: Platform) -> dict[str, str]:
    """Return the versions of the software that the evidence depends on, by name."""
    versions = {
        "kubernetes": asyncio.run(_kubernetes_version(context)),
        "pulumi": metadata.version("pulumi"),
        f"chart {platform.chart}": platform.installation.version,
    }
    return {name: version for name, version in versions.items() if version}


def _measured_figures(stack: Stack) -> tuple[Figure, ...]:
    try:
        with stack.unsalted():
            output = select(stack).outputs().get("tests")
        return tuple(collect.figures(figures_of(output.value if output else [])))
    except (automation.CommandError, ValueError) as error:
        cure = "check that the state can be read: `gpu-cluster env` prints where it is"
        fault = Fault("results of tests", printable(str(error), 500), "the stack's outputs", cure)
        raise EvidenceError(fault) from None


def made(stack: Stack, now: datetime, valid: int) -> Predicate:
    """Return the content of a stack's evidence, read from the cluster and the state.

    Args:
        stack: The stack; its file has no faults.
        now: Current time, UTC.
        valid: Number of days for which the evidence holds.

    Raises:
        EvidenceError: The stack is not as its file says.
        ClusterError: The cluster can't be reached.
    """
    extent = Extent.wanted()
    if not extent.has_cluster:
        place, wanted = "GPU_CLUSTER_INSPECTION", "an inspection of the cluster"
        raise EvidenceError(Fault(place, f"{extent}, which leaves it out", wanted, "unset it"))
    require_clean(status.document_of(stack))
    desired = resolve(stack.cluster, stack.name)
    resources = [pool.resources for pool in desired.validation.pools]
    nodes = asyncio.run(gpu_nodes(desired.context, resources))
    return Predicate(
        stack=stack.name,
        made=f"{now:{TIME}}",
        until=f"{now + timedelta(days=valid):{TIME}}",
        inspected="all" if extent.has_hosts else "cluster",
        versions=_software_versions(desired.context, desired.platform),
        nodes=tuple(collect.entries(nodes, desired.validation)),
        figures=_measured_figures(stack),
    )


def main(*, key: str = "", days: str = "", file: str = "") -> None:
    """Write the signed evidence of the stack; exit with 1 if it can't be made.

    Args:
        key: File with the private key.
        days: Number of days for which the evidence holds; empty for the default.
        file: File of the evidence; empty: `evidence-STACK.json`.
    """
    stack = Stack.current()
    with answering("evidence") as json_output:
        valid = validity(days)
        signer = envelope.signer(named_file("--key", key, envelope.KEY_LIMIT, envelope.MAKE_KEY))
        path = new_file("--file", file or FILE.format(stack=stack.name))
        digest = stack.digest()
        predicate = made(stack, datetime.now(UTC), valid)
        if stack.digest() != digest:
            cure = "make the evidence again while nobody changes the file"
            fault_text = "a file that changed while this command ran"
            raise EvidenceError(Fault(stack.file.name, fault_text, "an unchanged file", cure))
        signed = statement(predicate, stack.file.name, digest)
        replace_text(path, envelope.sign(signed.text(), signer))
        counts = totals(predicate.nodes)
        json_output |= {"file": str(path), "key": signer.public_key.keyid, "gpus": counts}
        say(f"evidence: {path}: {counted(counts)}, until {predicate.until}")


def counted(counts: Mapping[str, int]) -> str:
    """Return how many GPUs of how many ran a kernel, simulated a kernel or were deferred."""
    count_texts = [f"{counts[kind]} {kind}" for kind in ("computed", "simulated", "deferred")]
    return (
        f"{counts['declared']} GPUs, {', '.join(p for p in count_texts if not p.startswith('0 '))}"
    )
