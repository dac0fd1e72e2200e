"""Build findings of the inspection from short texts, for expected values in tests."""

from __future__ import annotations

import re

from gpu_cluster.findings import PATHS, PHASES, TEXTS, Aspect, Finding, Kind, Subject

VALIDATION = ("not validated", "validation asked for", "rebooted by this run")
"""Reasons for a validation."""


def found(words: str, was: str = "", now: str = "", *, first: bool = False) -> Finding:
    """Return a finding from a text such as ``drift: node gpu-1: label team``."""
    kind, about, what = words.split(": ", 2)
    subject, name = about.split(" ", 1)
    aspect, key = aspect_of(Kind(kind), Subject(subject), what)
    return Finding(
        kind=Kind(kind),
        subject=Subject(subject),
        name=name,
        aspect=aspect,
        key=key,
        was=was,
        now=now,
        first=first,
    )


def aspect_of(kind: Kind, subject: Subject, what: str) -> tuple[Aspect, str]:
    """Return the aspect and the key whose words are a text."""
    if what in VALIDATION:
        return Aspect.VALIDATION, what
    for phase, words in PHASES.items():
        if what == words:
            return Aspect.PHASE, phase
    for aspect, template in TEXTS.items():
        pattern = re.escape(template).replace(r"\{key\}", "(?P<key>.*)")
        if match := re.fullmatch(pattern, what):
            return aspect, match.groupdict().get("key", "")
    if kind is Kind.CHANGE and subject in (Subject.HOST, Subject.NODE):
        if subject is Subject.HOST and "." not in what:
            return Aspect.RECORDED, what.upper().replace(" ", "_")
        paths = {path: name for name, path in PATHS.items()}
        if subject is Subject.HOST and what in paths:
            return Aspect.RECORDED, paths[what]
        return Aspect.SETTING, what
    return (Aspect.VALUE if kind is Kind.DRIFT else Aspect.REASON), what
