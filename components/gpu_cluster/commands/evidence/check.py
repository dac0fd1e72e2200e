"""Check without a network that signed evidence is still valid: dates, stack file, facts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpu_cluster.commands.evidence.statement import (
    EvidenceError,
    NodeEvidence,
    Predicate,
    Statement,
    moment,
)
from gpu_cluster.desired.validation import DesiredValidation, PoolValidation
from gpu_cluster.nodes.record import SETTINGS
from gpu_rules.faults import Fault

SKEW = timedelta(minutes=5)
"""Accepted difference between the clocks of two machines."""
LONGEST = 366
"""Maximum number of days for which evidence may hold."""
AGAIN = (
    "validate the stack again and make new evidence: `gpu-cluster validate`, then "
    "`gpu-cluster evidence`"
)
DISTRUST = "do not trust the file: whoever signed it did not write it with `gpu-cluster evidence`"


@dataclass(frozen=True, kw_only=True)
class Declared:
    """The stack as its file declares it now.

    Attributes:
        file: Name of the stack file.
        sha256: Digest of the stack file.
        validation: Desired validation of the stack.
    """

    stack: str
    file: str
    sha256: str
    validation: DesiredValidation


def require_holds(statement: Statement, declared: Declared, now: datetime) -> None:
    """Check that a statement is valid for a stack at a time.

    Dates are checked first, then the stack file, then facts: evidence that is too old is not
    reported with all that has changed since.

    Args:
        statement: The statement; its signature was verified.
        declared: The stack as its file declares it now.
        now: Current time, UTC.

    Raises:
        EvidenceError: Something does not hold; the error names it.
    """
    predicate = statement.predicate
    for faults in (
        _check_dates(predicate, now),
        _check_stack(statement, declared),
        _check_nodes(predicate, declared.validation),
        _check_facts(predicate, declared.validation),
        _check_figures(predicate, declared.validation),
        _check_file(statement, declared),
    ):
        if named_faults := list(faults):
            raise EvidenceError(*named_faults)


def _check_dates(predicate: Predicate, now: datetime) -> Iterator[Fault]:
    made_at, until = moment(predicate.made), moment(predicate.until)
    if made_at > now + SKEW:
        cure = "set the clock of this machine, or of the one that made the evidence"
        yield Fault(
            "made", f"{predicate.made}, in the future", f"at most {now:%Y-%m-%dT%H:%MZ}", cure
        )
    if until <= now:
        yield Fault(
            "until", f"{predicate.until}, which is in the past", f"later than {now:%Y-%m-%d}", AGAIN
        )
    if not made_at < until <= made_at + timedelta(days=LONGEST):
        allowed = f"after {predicate.made}, at most {LONGEST} days"
        yield Fault("until", predicate.until, allowed, DISTRUST)
    for node in predicate.nodes:
        if node.since and moment(node.since) > made_at + SKEW:
            place = f"node {node.name} since"
            yield Fault(place, f"{node.since}, after the evidence", predicate.made, DISTRUST)


def _check_stack(statement: Statement, declared: Declared) -> Iterator[Fault]:
    if statement.predicate.stack != declared.stack:
        cure = f"name the stack: --stack {statement.predicate.stack}"
        yield Fault("stack", statement.predicate.stack, declared.stack, cure)
    (subject,) = statement.subject
    if subject.name != declared.file:
        yield Fault("subject", subject.name, declared.file, DISTRUST)


def _check_file(statement: Statement, declared: Declared) -> Iterator[Fault]:
    (subject,) = statement.subject
    if subject.digest.sha256 != declared.sha256:
        yield Fault(
            f"digest of {declared.file}",
            f"{subject.digest.sha256}, the digest of a file with other content",
            f"{declared.sha256}, the digest of the file as it is now",
            f"check out the revision that was validated, or {AGAIN}",
        )


def _declared_pool(name: str, pool: str, validation: DesiredValidation) -> PoolValidation | None:
    """Return the pool that a node belongs to, or None if the stack has no such node."""
    for pool_validation in validation.pools:
        if name in (pool_validation.nodes or ()):
            return (
                pool_validation
                if pool == validation.pool_of.get(name, pool_validation.pool)
                else None
            )
    return next((p for p in validation.pools if p.nodes is None and p.pool == pool), None)


def _check_nodes(predicate: Predicate, validation: DesiredValidation) -> Iterator[Fault]:
    names = Counter(node.name for node in predicate.nodes)
    yield from (
        Fault(f"node {name}", f"{count} entries", "one entry", DISTRUST)
        for name, count in names.items()
        if count > 1
    )
    for pool in validation.pools:
        for name in pool.nodes or ():
            if name not in names:
                yield Fault(
                    f"node {name}",
                    "no entry for this node",
                    f"an entry for each node of pool {pool.pool}",
                    AGAIN,
                )
        if (
            pool.nodes is None
            and (n := sum(e.pool == pool.pool for e in predicate.nodes)) < pool.count
        ):
            yield Fault(f"pool {pool.pool}", f"{n} nodes", f"{pool.count} nodes", AGAIN)
    uuids = Counter(uuid for node in predicate.nodes for uuid in _uuids_of_node(node))
    yield from (
        Fault(f"GPU {uuid}", f"{count} entries", "one entry: each UUID is of one GPU", DISTRUST)
        for uuid, count in uuids.items()
        if count > 1
    )


def _uuids_of_node(node: NodeEvidence) -> Iterator[str]:
    for gpu, instances in node.devices.items():
        yield gpu
        yield from instances


def _check_facts(predicate: Predicate, validation: DesiredValidation) -> Iterator[Fault]:
    for node in predicate.nodes:
        place = f"node {node.name}"
        pool = _declared_pool(node.name, node.pool, validation)
        if pool is None:
            yield Fault(
                place, f"pool {node.pool}", "a pool that the stack declares for this node", AGAIN
            )
            continue
        if node.declared != pool.gpus:
            yield Fault(place, f"{node.declared} GPUs declared", str(pool.gpus), AGAIN)
        yield from _check_counts(node, place)
        for key, value in pool.own.get(node.name, pool.settings).items():
            fact = node.facts.get(SETTINGS + key)
            if value and fact != value:
                yield Fault(f"{place} {key}", fact or "nothing", f"{value}, as declared", AGAIN)


def _check_counts(node: NodeEvidence, place: str) -> Iterator[Fault]:
    """Yield a fault for numbers of GPUs that contradict each other or the UUIDs."""
    ran = node.computed + node.simulated
    if ran + node.deferred != node.declared or (node.computed and node.simulated):
        counts = f"{node.computed} computed, {node.simulated} simulated, {node.deferred} deferred"
        yield Fault(
            place,
            counts,
            f"{node.declared} GPUs in all, and not both computed and simulated",
            DISTRUST,
        )
    elif not ran <= len(node.devices) <= node.declared or (ran and not node.since):
        fault_text = f"{len(node.devices)} UUIDs, validated at {node.since or 'an unknown time'}"
        yield Fault(place, fault_text, f"{ran} UUIDs and the time of the validation", DISTRUST)


def _check_figures(predicate: Predicate, validation: DesiredValidation) -> Iterator[Fault]:
    tests = {test.name: test for test in validation.measuring.tests}
    names = {node.name for node in predicate.nodes}
    for figure in predicate.figures:
        place = f"test {figure.test} on {figure.node}"
        if figure.test not in tests or figure.node not in names:
            yield Fault(place, "a result", "results only for tests and nodes of the stack", AGAIN)
        elif figure.minimum != tests[figure.test].minimum:
            minimum = str(tests[figure.test].minimum)
            yield Fault(f"{place} minimum", str(figure.minimum), f"{minimum}, as declared", AGAIN)
        elif not figure.problem and not figure.skipped and _is_below(figure.figure, figure.minimum):
            yield Fault(
                place,
                f"{figure.figure}, reported as passed",
                f"at least {figure.minimum}",
                DISTRUST,
            )


def _is_below(figure: float | None, minimum: float | None) -> bool:
    return minimum is not None and (figure is None or figure < minimum)


def totals(nodes: Iterable[NodeEvidence]) -> Mapping[str, int]:
    """Return the total numbers of declared, computed, simulated and deferred GPUs, by name."""
    kinds = ("declared", "computed", "simulated", "deferred")
    listed = list(nodes)
    return {kind: sum(int(getattr(node, kind)) for node in listed) for kind in kinds}
