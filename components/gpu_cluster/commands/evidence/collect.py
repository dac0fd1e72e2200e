"""Collect the evidence of a stack from its Node objects. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from pydantic import ValidationError

from gpu_cluster.base.explain import first_error
from gpu_cluster.commands.evidence.statement import EvidenceError, Figure, NodeEvidence
from gpu_cluster.desired.validation import DesiredValidation
from gpu_cluster.kubernetes.api import Json
from gpu_cluster.nodes import record
from gpu_cluster.nodes.inspect import pool_members
from gpu_cluster.validation.measurement import Outcome
from gpu_cluster.validation.node_result import of_node
from gpu_rules.faults import Fault

COUNTS = ("name", "declared", "computed", "simulated", "deferred", "since")


def entries(nodes: list[Json], validation: DesiredValidation) -> Iterator[NodeEvidence]:
    """Yield the validation of each node of a stack, as the node's record has it.

    Args:
        nodes: All Node objects of the cluster.
        validation: Desired validation of the stack.

    Raises:
        EvidenceError: A node's record has a form that `gpu-cluster validate` does not write.
        ClusterError: A node is missing.
    """
    for pool in validation.pools:
        for node in pool_members(nodes, pool):
            counted = of_node(pool, node)
            recorded = record.decode(node) or record.ValidationRecord()
            try:
                yield NodeEvidence(
                    **{key: counted[key] for key in COUNTS},
                    pool=validation.pool_of.get(counted["name"], pool.pool),
                    devices={gpu: tuple(uuids) for gpu, uuids in recorded.devices.items()},
                    facts=recorded.facts,
                )
            except ValidationError as error:
                raise _ill_formed(f"node {counted['name']}", error) from None


def figures(outcomes: Sequence[Outcome]) -> Iterator[Figure]:
    """Yield the results of user-defined tests.

    Raises:
        EvidenceError: A result has a form that `gpu-cluster validate` does not write.
    """
    for outcome in outcomes:
        try:
            yield Figure(**asdict(outcome))
        except ValidationError as error:
            raise _ill_formed(f"test {outcome.test} on {outcome.node}", error) from None


def _ill_formed(place: str, error: ValidationError) -> EvidenceError:
    field_path, wrong = first_error(error)
    cure = "run `gpu-cluster validate` again"
    return EvidenceError(
        Fault(f"{place} {field_path}", wrong, "a result of `gpu-cluster validate`", cure)
    )
