"""A user-defined test on one node: its pod, and what its log proves. Pure functions."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

from components.desired.validation import POOL, MeasuredPool, MeasuredTest
from components.kubernetes.api import Json
from components.kubernetes.labels import LABELS
from components.settings.log_pattern import figure
from components.validation.container_result import SHOWN, SIMULATED
from components.validation.pod import CAPABILITIES, NODE, only
from policies.printable import printable

TEST = "gpu-cluster/test"
"""Annotation of a test's pod: its name."""
CONTAINER = "test"
LONGEST = 253
"""Characters of a pod's name."""


@dataclass(frozen=True)
class Outcome:
    """What a test found on a node.

    Attributes:
        test: its name.
        node, pool: where.
        figure: what was measured; None where nothing was, or where the exit code alone counts.
        minimum: the least that it may be; None where anything may.
        problem: why the test failed; empty where it passed or did not run.
        skipped: why it did not run; empty where it ran.
        simulated: whether no GPU ran it.
        at: when, in UTC.
    """

    test: str
    node: str
    pool: str
    figure: float | None = None
    minimum: float | None = None
    problem: str = ""
    skipped: str = ""
    simulated: bool = False
    at: str = ""

    def __str__(self) -> str:
        said = self.problem or self.skipped
        shown = f"{self.figure:g}" if self.figure is not None else "passed"
        return f"{self.node} {said or shown}"


def slowest_first(outcomes: list[Outcome]) -> list[Outcome]:
    """By test; failed ones without a figure first, those that did not run last."""

    def order(outcome: Outcome) -> tuple[str, bool, float, str]:
        return (
            outcome.test,
            bool(outcome.skipped),
            -1.0 if outcome.figure is None else outcome.figure,
            outcome.node,
        )

    return sorted(outcomes, key=order)


def read(kept: Any) -> Outcome | None:
    """An outcome of an earlier run; None where it isn't one."""
    try:
        return Outcome(**kept)
    except TypeError:
        return None


def plain(outcomes: list[Outcome]) -> list[Json]:
    """Outcomes as JSON."""
    return [asdict(outcome) for outcome in outcomes]


def name_of(test: str, node: str) -> str:
    """Name of a test's pod on a node."""
    name = f"test-{test}-{node}"
    if len(name) <= LONGEST:
        return name
    return f"test-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def pod(test: MeasuredTest, pool: MeasuredPool, node: str) -> Json:
    """The pod of a test: one container with all of its GPUs, on one node.

    Args:
        test: the test.
        pool: the node's pool.
        node: its name.
    """
    offer = pool.offers[0]
    claim = test.claim_template
    limits = {"memory": test.memory}
    if not claim:
        limits[offer.resource] = str(test.gpus * offer.unit)
    container = {
        "name": CONTAINER,
        "image": test.image,
        "command": list(test.command),
        "env": [CAPABILITIES],
        "resources": {
            "requests": {"cpu": "1", "memory": test.memory},
            "limits": limits,
            **({"claims": [{"name": CONTAINER}]} if claim else {}),
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        # NCCL's ranks share memory there; a runtime's own has 64 MiB.
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name_of(test.name, node),
            # A pool's name has no dot: its validation takes this pod for none of its own.
            "labels": {
                POOL: f"{pool.pool}.test",
                **LABELS,
            },
            "annotations": {**test.annotations, NODE: node, TEST: test.name},
        },
        "spec": {
            **test.spec,
            "tolerations": list(pool.tolerations),
            "activeDeadlineSeconds": test.timeout_seconds,
            "affinity": {"nodeAffinity": only(node)},
            "containers": [container],
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
            **(
                {"resourceClaims": [{"name": CONTAINER, "resourceClaimTemplateName": claim}]}
                if claim
                else {}
            ),
        },
    }


def evaluate(
    test: MeasuredTest, pool: str, node: str, code: int | None, log: str, at: str
) -> Outcome:
    """What a test that has ended found.

    Args:
        test: the test.
        pool: its name.
        node: its name.
        code: exit code; None where its container did not run to an end.
        log: the end of what it printed.
        at: when it ended.
    """
    lines = log.splitlines()
    # What a program that failed has printed measures nothing.
    measured = figure(test.pattern, log) if test.pattern and code == 0 else None
    least, last = test.minimum, next((line for line in reversed(lines) if line.strip()), "")
    problem = ""
    if code != 0:
        problem = f"exit code {code}; its last line: {printable(last, SHOWN) or 'no output'}"
    elif test.pattern and measured is None:
        problem = (
            f"no line of its log reads {test.pattern!r}; its last line: "
            f"{printable(last, SHOWN) or 'no output'}"
        )
    elif measured is not None and least is not None and measured < least:
        problem = f"{measured:g}, below {least:g}"
    simulated = any(line.startswith(SIMULATED) for line in lines)
    return Outcome(test.name, node, pool, measured, least, problem, "", simulated, at)
