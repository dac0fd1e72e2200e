"""Join the Pulumi program's change documents with the Pulumi engine's events. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpu_cluster.base.model import FrozenDict
from gpu_cluster.change.document import Document, Move, Problem, Resource, conclusion, stopping
from gpu_cluster.change.lines import StackFile, located


@dataclass(frozen=True, kw_only=True)
class EngineSteps:
    """Results of a preview that the Pulumi engine reported.

    Attributes:
        resources: Resources that would change.
        steps: Number of steps by operation.
        rules: Violations that the policy pack reports, each with the name of its resource.
        errors: Errors of the engine and of the program.
        cause: Why the preview failed. Empty: it did not fail.
        move: The other cluster that the stack moves to. None: it stays in its cluster.
    """

    resources: tuple[Resource, ...] = ()
    steps: Mapping[str, int] = field(default_factory=dict)
    rules: tuple[tuple[Problem, str], ...] = ()
    errors: tuple[str, ...] = ()
    cause: str = ""
    move: Move | None = None


def assembled(
    stack: str, written: Sequence[Document], engine: EngineSteps, file: StackFile
) -> Document:
    """Return the document of the whole preview.

    Args:
        written: Documents that the program wrote, one per cluster.
        engine: Results that the Pulumi engine reported.
        file: Line numbers of the settings in the stack file.
    """
    clusters = tuple(cluster for document in written for cluster in document.clusters)
    known_texts = {problem.text for cluster in clusters for problem in cluster.faults}
    known_texts |= {problem.text for problem, _ in engine.rules}
    faults = [fault for document in written for fault in document.faults]
    if engine.cause and not faults:
        faults = [
            Problem(text=text) for text in engine.errors if not _is_reported(text, known_texts)
        ]
    rules = tuple(
        sorted((file.located(rule, name) for rule, name in engine.rules), key=_rule_order)
    )
    outcome, cause = conclusion(
        stopping(clusters, faults, rules),
        is_changed=bool(engine.resources) or any(cluster.is_changed for cluster in clusters),
        cause=engine.cause,
    )
    document = Document(
        stack=stack,
        outcome=outcome,
        move=engine.move,
        clusters=clusters,
        resources=tuple(sorted(engine.resources, key=_resource_order)),
        steps=FrozenDict(sorted(engine.steps.items())),
        rules=rules,
        faults=tuple(faults),
        cause=cause,
    )
    return located(document, file)


def _is_reported(text: str, known_texts: set[str]) -> bool:
    """Return whether each line of an error text is also a line of one of the known texts."""
    known_lines = {line.strip() for known_text in known_texts for line in known_text.splitlines()}
    return all(line.strip() in known_lines for line in text.splitlines() if line.strip())


def _resource_order(resource: Resource) -> tuple[str, str, str]:
    """Return a sort key for resources, because the engine's order differs between runs."""
    return resource.type, resource.name, resource.operation


def _rule_order(problem: Problem) -> tuple[bool, str, str]:
    return not problem.mandatory, problem.rule, problem.text
