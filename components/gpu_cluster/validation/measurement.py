"""A user-defined test on one node: its pod, and the result in its log. Pure functions."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass

from gpu_cluster.desired.validation import POOL, MeasuredPool, MeasuredTest
from gpu_cluster.kubernetes.api import Json
from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.settings.log_pattern import figure
from gpu_cluster.validation.container_result import SHOWN, SIMULATED
from gpu_cluster.validation.pod import CAPABILITIES, NODE, only
from gpu_rules.kube.names import SUBDOMAIN_LIMIT
from gpu_rules.printable import printable

TEST = "gpu-cluster/test"
"""Annotation of a test's pod with the name of the test."""
CONTAINER = "test"
LONGEST = SUBDOMAIN_LIMIT
"""Maximum number of characters of a pod's name."""


@dataclass(frozen=True)
class Outcome:
    """Result of a test on a node.

    Attributes:
        test: Name of the test.
        pool: Name of the node's pool.
        figure: Measured value. None if nothing was measured, or if only the exit code counts.
        minimum: Least value that passes. None: any value passes.
        problem: Why the test failed. Empty if it passed or did not run.
        skipped: Why the test did not run. Empty if it ran.
        simulated: Whether the test was only simulated.
        at: Time of the result, UTC.
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
        """Return the node's name with the measured value, the problem or why it was skipped."""
        failure = self.problem or self.skipped
        result = f"{self.figure:g}" if self.figure is not None else "passed"
        return f"{self.node} {failure or result}"


def slowest_first(outcomes: list[Outcome]) -> list[Outcome]:
    """Return the results sorted by test and value.

    Within a test, failures without a value come first, and skipped tests come last.
    """

    def order(outcome: Outcome) -> tuple[str, bool, float, str]:
        return (
            outcome.test,
            bool(outcome.skipped),
            -1.0 if outcome.figure is None else outcome.figure,
            outcome.node,
        )

    return sorted(outcomes, key=order)


def plain(outcomes: list[Outcome]) -> list[Json]:
    """Return results as JSON-compatible dictionaries."""
    return [asdict(outcome) for outcome in outcomes]


def name_of(test: str, node: str) -> str:
    """Return the name of a test's pod on a node."""
    name = f"test-{test}-{node}"
    if len(name) <= LONGEST:
        return name
    return f"test-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def pod(test: MeasuredTest, pool: MeasuredPool, node: str) -> Json:
    """Return the pod of a test: one container that requests all GPUs of the test."""
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
        # NCCL's ranks share memory in /dev/shm; the container runtime's default is only 64 MiB.
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name_of(test.name, node),
            # A pool's name has no dot, so the pool's validation ignores this pod.
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
    """Return the result of a test that has ended.

    Args:
        code: Exit code. None if the container did not run to its end.
        log: End of the container's log.
        at: Time when the test ended.
    """
    lines = log.splitlines()
    # The output of a failed program is not a measurement.
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
