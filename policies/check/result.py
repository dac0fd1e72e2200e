"""What judging a document gives: plain data, which travels between processes."""

from __future__ import annotations

from dataclasses import dataclass

from policies.check.problem import Problem
from policies.rules import Severity, Violation


@dataclass(frozen=True, slots=True)
class Found:
    """A violation with its place; `rule` is the rule's id, `document` and `line` count from 1."""

    file: str
    document: int
    line: int
    rule: str
    title: str
    severity: Severity
    subject: str
    container: str
    path: str
    found: str
    wanted: str
    cure: str

    @classmethod
    def at(cls, violation: Violation, file: str, document: int, line: int) -> Found:
        """A violation at a place."""
        return cls(
            file=file,
            document=document,
            line=line,
            rule=violation.rule.id,
            title=violation.rule.title,
            severity=violation.severity,
            subject=violation.subject,
            container=violation.container,
            path=violation.path,
            found=violation.found,
            wanted=violation.wanted,
            cure=violation.cure,
        )

    @property
    def message(self) -> str:
        """One line: object, container, path, found, wanted, cure."""
        where = f"{self.subject}, container {self.container}" if self.container else self.subject
        return f"{where}: {self.path}: found {self.found}, wanted {self.wanted}. {self.cure}"


@dataclass(frozen=True, slots=True)
class Judged:
    """One document: its objects by name, what they break, and what could not be read.

    `foreign`: it is no Kubernetes object, having neither kind nor apiVersion.
    """

    file: str
    document: int
    subjects: tuple[str, ...] = ()
    found: tuple[Found, ...] = ()
    problems: tuple[Problem, ...] = ()
    foreign: bool = False
