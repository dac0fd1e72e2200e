"""The report: all results of one run of the checker, in the order of the input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ..rules import RULES, Severity
from .ignored import IgnoredPaths
from .problem import Problem, Unjudged
from .result import Found, Judged

Result = Judged | Found | Problem | Unjudged
CLEAN, VIOLATIONS, UNREADABLE = 0, 1, 2


@dataclass
class Report:
    """All results of one run of the checker.

    Attributes:
        fail_on: Lowest severity of a violation that makes the exit code 1.
        judged: Documents that were checked.
        found: Violations.
        problems: Files and documents that could not be read.
        foreign: Number of documents that are not Kubernetes objects.
        templates: Number of templates and patches that name no GPUs.
        unjudged: Fields that may request GPUs in a form that no rule reads, and skipped files.
        fail_on_unjudged: Whether an entry in `unjudged` makes the exit code 1.
        ignored: Files and folders that were left out on request.
        observed: Whether the objects were judged as read from a cluster.
        gone: Number of baseline entries that no violation of this run has matched.
        lists_all: Whether the text output lists all advice (`listed`).
    """

    fail_on: Severity = Severity.MANDATORY
    judged: list[Judged] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    foreign: int = 0
    templates: int = 0
    unjudged: list[Unjudged] = field(default_factory=list)
    fail_on_unjudged: bool = False
    ignored: IgnoredPaths = field(default_factory=IgnoredPaths)
    observed: bool = False
    gone: int = 0
    lists_all: bool = False

    def add(self, results: Iterable[Result]) -> None:
        """Add results to the report."""
        for result in results:
            match result:
                case Problem():
                    self.problems.append(result)
                case Unjudged():
                    self.unjudged.append(result)
                case Found():
                    self.found.append(result)
                case Judged():
                    self.judged.append(result)
                    self.found += result.found
                    self.problems += result.problems
                    self.foreign += result.foreign
                    self.templates += result.templates
                    self.unjudged += result.unjudged

    @property
    def objects(self) -> int:
        """Return the number of Kubernetes objects that were checked."""
        return sum(len(document.subjects) for document in self.judged)

    def count(self, severity: Severity) -> int:
        """Return the number of violations of a severity, without exempted and baseline ones."""
        return sum(
            violation.severity is severity and not violation.exemption and not violation.known
            for violation in self.found
        )

    def listed(self) -> Iterator[tuple[Found, int]]:
        """Yield the violations that the text output lists, with the number of others after each.

        Advice of one rule that has more places than `Rule.listed` is listed once: the same advice
        in many objects would hide what must be changed. A run that fails on advice lists all.
        """
        new_violations = [violation for violation in self.found if not violation.known]
        advice = Counter(v.rule for v in new_violations if v.severity is Severity.ADVISORY)
        lists_all = self.lists_all or self.fail_on is Severity.ADVISORY
        begun: set[str] = set()
        for violation in new_violations:
            others_of_rule = advice[violation.rule] - 1
            is_listed = lists_all or others_of_rule < RULES[violation.rule].listed
            if is_listed or violation.severity is Severity.MANDATORY:
                yield violation, 0
            elif violation.rule not in begun:
                begun.add(violation.rule)
                yield violation, others_of_rule

    @property
    def exempt(self) -> int:
        """Return the number of violations to which an exemption applies."""
        return sum(bool(violation.exemption) for violation in self.found)

    @property
    def known(self) -> int:
        """Return the number of violations that the baseline excuses."""
        return sum(violation.known for violation in self.found)

    @property
    def unjudged_kinds(self) -> Counter[str]:
        """Return how many fields and files were not checked, by kind such as `Helm chart`."""
        return Counter(left_out.what for left_out in self.unjudged)

    @property
    def exit_code(self) -> int:
        """Return the exit code of the checker.

        Returns:
            2 if a file or document could not be read; 1 if a violation has a severity of at least
            `fail_on`, or if `fail_on_unjudged` is set and a field or file was not checked; else 0.
        """
        if self.problems:
            return UNREADABLE
        counted = {Severity.MANDATORY, self.fail_on}
        unjudged = self.fail_on_unjudged and bool(self.unjudged)
        return VIOLATIONS if any(map(self.count, counted)) or unjudged else CLEAN

    @property
    def summary(self) -> str:
        """Return a summary of the checker's run in one line."""
        counts = [
            f"{_plural(self.objects, 'object')} checked" if self.objects else "nothing was checked",
            f"{self.count(Severity.MANDATORY)} mandatory and "
            f"{self.count(Severity.ADVISORY)} advisory violations",
        ]
        if self.observed:
            counts.append("without what the system wrote")
        if self.exempt:
            counts.append(f"{self.exempt} exempt")
        if self.known:
            counts.append(f"{self.known} known from the baseline")
        if self.gone:
            counts.append(f"{self.gone} of the baseline gone")
        if self.foreign:
            counts.append(
                f"{_plural(self.foreign, 'document')} without Kubernetes objects left out"
            )
        if self.ignored.count:
            counts.append(f"{_plural(self.ignored.count, 'path')} ignored")
        if self.templates:
            counts.append(f"{self.templates} without GPUs left out as templates or patches")
        if self.unjudged:
            kinds = ", ".join(
                f"{count} {kind}" for kind, count in sorted(self.unjudged_kinds.items())
            )
            counts.append(f"not checked: {kinds}")
        if self.problems:
            counts.append(f"{len(self.problems)} could not be read")
        return ", ".join(counts)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
