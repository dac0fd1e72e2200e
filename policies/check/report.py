"""All that one run found, in the order of the input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..rules import Severity
from .problem import Problem, Unjudged
from .result import Found, Judged

Result = Judged | Found | Problem | Unjudged
CLEAN, VIOLATIONS, UNREADABLE = 0, 1, 2


@dataclass
class Report:
    """What a run found.

    `foreign` counts the documents that are no Kubernetes objects, `unjudged` by its kind what may
    ask for GPUs in a way that no rule reads. `fail_on`: the least severity
    that makes `exit_code` 1.
    """

    fail_on: Severity = Severity.MANDATORY
    judged: list[Judged] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    foreign: int = 0
    unjudged: Counter[str] = field(default_factory=Counter)

    def add(self, results: Iterable[Result]) -> None:
        """Take in what was judged, could not be, or was left out."""
        for result in results:
            match result:
                case Problem():
                    self.problems.append(result)
                case Unjudged():
                    self.unjudged[result.what] += 1
                case Found():
                    self.found.append(result)
                case Judged():
                    self.judged.append(result)
                    self.found += result.found
                    self.problems += result.problems
                    self.foreign += result.foreign
                    self.unjudged.update(result.unjudged)

    @property
    def objects(self) -> int:
        """How many Kubernetes objects were judged."""
        return sum(len(document.subjects) for document in self.judged)

    def count(self, severity: Severity) -> int:
        """How many violations there are of a severity, exempt ones apart."""
        return sum(
            violation.severity is severity and not violation.exemption for violation in self.found
        )

    @property
    def exempt(self) -> int:
        """How many violations annotations make advice."""
        return sum(bool(violation.exemption) for violation in self.found)

    @property
    def exit_code(self) -> int:
        """0, 1 where violations are to fail the run, 2 where something could not be read."""
        if self.problems:
            return UNREADABLE
        counted = {Severity.MANDATORY, self.fail_on}
        failing = (
            not violation.exemption and violation.severity in counted for violation in self.found
        )
        return VIOLATIONS if any(failing) else CLEAN

    @property
    def summary(self) -> str:
        """One line for people."""
        parts = [
            f"{_plural(self.objects, 'object')} judged",
            f"{self.count(Severity.MANDATORY)} mandatory and "
            f"{self.count(Severity.ADVISORY)} advisory violations",
        ]
        if self.exempt:
            parts.append(f"{self.exempt} exempt")
        if self.foreign:
            parts.append(f"{_plural(self.foreign, 'document')} without Kubernetes objects left out")
        if self.unjudged:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.unjudged.items()))
            parts.append(f"not judged: {kinds}")
        if self.problems:
            parts.append(f"{len(self.problems)} could not be read")
        return ", ".join(parts)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
