"""Findings of an inspection: differences between desired, last applied and observed state.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from enum import StrEnum

from gpu_rules.printable import printable, shortened

NAMED = 5
"""Maximum number of names that one line spells out; the line only counts the other names."""
LINES = 20
"""Maximum number of lines of findings in a Command's input; other lines are only counted."""
APPLIED = "applied"
"""Value of a phase, or of a step, that a run has applied."""
THERE = "there"
"""Value of an object that exists."""
EMPTY = '""'
"""Value that is there and empty, in contrast to no value."""
EXPECTED_GPUS = "number of GPUs that the validation expects"
"""Name of the setting of a node that follows from its pool's GPUs and from excluded GPUs."""
NOTHING = "none"
"""Word that a finding's text shows for an empty value."""


class Kind(StrEnum):
    """Kind of a finding.

    - `change`: the desired value is not the last applied value: a person edited the stack.
    - `drift`: the observed value is not the last applied value: somebody else changed it.
    - `due`: nothing differs, but a required check, such as the validation of a node, is missing or
      outdated.
    """

    CHANGE = "change"
    DRIFT = "drift"
    DUE = "due"


class Subject(StrEnum):
    """Type of the object that a finding is about: host, node, pool or Kubernetes object."""

    HOST = "host"
    NODE = "node"
    POOL = "pool"
    OBJECT = "object"


class Aspect(StrEnum):
    """What of an object differs; for the kind `due`, the type of the reason.

    A `setting` is named by its path in the stack file, a `recorded` setting by the name by which
    hosts record it.
    """

    CHART = "chart"
    FACT = "fact"
    FIELD = "field"
    FILE = "file"
    GPUS = "gpus"
    LABEL = "label"
    LAYOUT = "layout"
    OBJECT = "object"
    PHASE = "phase"
    POOL = "pool"
    REASON = "reason"
    REBOOT = "reboot"
    RECORDED = "recorded"
    SCRIPT = "script"
    SETTING = "setting"
    STEP = "step"
    SYSCTL = "sysctl"
    TAINT = "taint"
    TAINTS = "taints"
    VALIDATION = "validation"
    VALUE = "value"


TEXTS: Mapping[Aspect, str] = {
    Aspect.CHART: "chart",
    Aspect.FACT: "validated with another {key}:",
    Aspect.FIELD: "field {key}",
    Aspect.FILE: "file {key}",
    Aspect.GPUS: "GPUs",
    Aspect.LABEL: "label {key}",
    Aspect.LAYOUT: "MIG layout{key}",
    Aspect.OBJECT: "platform's object",
    Aspect.POOL: "pool",
    Aspect.REBOOT: "reboot: {key}",
    Aspect.SCRIPT: "this program's script {key}",
    Aspect.STEP: "step {key}",
    Aspect.SYSCTL: "system.sysctl[{key}]",
    Aspect.TAINT: "taint {key}",
    Aspect.TAINTS: "taints",
}
"""Words for each aspect, in which `key` is replaced; without an entry the key is the words."""

PATHS: Mapping[str, str] = {
    "CDI": "runtime.cdi",
    "DEFAULT_RUNTIME": "runtime.defaultRuntime",
    "DEVICES_BY_ENVIRONMENT": "runtime.devicesByEnvironment",
    "DRIVER_FABRIC_MANAGER": "driver.fabricManager",
    "DRIVER_HOLD": "driver.hold",
    "DRIVER_MODULES": "driver.modules",
    "DRIVER_PERSISTENCE": "driver.persistence",
    "DRIVER_REMOVE_EARLIER": "driver.removeEarlier",
    "DRIVER_SOURCE": "driver.source",
    "DRIVER_VERSION": "driver.version",
    "KERNEL_FLAVOR": "kernel.flavor",
    "KERNEL_HOLD": "kernel.hold",
    "KERNEL_RELEASE": "kernel.release",
}
"""Paths in the stack file of settings that hosts record by other names."""

WORDS: Mapping[str, str] = {
    "HEADERS": "kernel headers to build the driver's modules",
    "PACKAGES": "packages to install",
}
"""Words for what hosts record of several settings together."""

PHASES: Mapping[str, str] = {
    "prepare": "preparation",
    "runtime": "container runtime",
    "cluster": "membership of the cluster",
}
"""Words for the phases of a host."""


@dataclass(frozen=True)
class Finding:
    """One difference from the desired state, or one check that must be repeated.

    Attributes:
        kind: Kind of the finding: change, drift or due.
        subject: Type of the object that differs.
        name: Name of the object that differs.
        aspect: What of the object differs.
        key: Which label, taint, setting, step, phase, file or value differs; the reason of a
            finding of the kind `due`. Empty: the object has only one.
        was: Last applied value. Empty: nothing was applied.
        now: Desired value of a change, observed value of a drift. Empty: no value.
        first: Whether nothing was ever applied to the object.
    """

    kind: Kind
    subject: Subject
    name: str
    aspect: Aspect
    key: str = ""
    was: str = ""
    now: str = ""
    _: KW_ONLY
    first: bool = False

    @property
    def what(self) -> str:
        """Return what differs in words, such as `label team`, or the reason."""
        return aspect_text(self.aspect, self.key)

    @property
    def text(self) -> str:
        """Return the difference without its node or host, such as `label team none → ml`."""
        if not self.was and not self.now:
            return self.what
        return f"{self.what} {self.was or NOTHING} → {self.now or NOTHING}"


Findings = tuple[Finding, ...]


def is_setting(finding: Finding, *keys: str) -> bool:
    """Return whether a finding is about one of the named settings."""
    return finding.aspect is Aspect.SETTING and finding.key in keys


def aspect_text(aspect: Aspect, key: str) -> str:
    """Return what differs in words, such as `label team`.

    Args:
        aspect: What differs.
        key: Which of these differs.
    """
    if aspect is Aspect.SCRIPT and not key:
        return "a script of this program"
    if aspect is Aspect.PHASE:
        return PHASES[key]
    if aspect is Aspect.RECORDED:
        return PATHS.get(key) or WORDS.get(key) or _recorded_words(key)
    return TEXTS.get(aspect, "{key}").format(key=key)


def _recorded_words(name: str) -> str:
    """Return a setting that a host records in words: `ENGINE_HOLD` becomes `engine hold`."""
    head, _, key = name.partition(".")
    return f"{head.lower().replace('_', ' ')} {key}".rstrip()


def lines(findings: Iterable[Finding]) -> list[str]:
    """Return findings as lines; equal findings about several hosts or nodes share a line."""
    names: dict[tuple[Kind, Subject, str], list[str]] = {}
    for finding in findings:
        key = (finding.kind, finding.subject, finding.text)
        names.setdefault(key, []).append(finding.name)
    return [
        printable(f"{kind}: {subject} {shortened([*dict.fromkeys(named)], NAMED)}: {text}")
        for (kind, subject, text), named in names.items()
    ]


def told(findings: Iterable[Finding]) -> str:
    """Return findings as one line, for an input of a pulumi-command Command.

    The line contains the time, so that no two runs have the same input.
    """
    every = lines(findings)
    more = [f"and {len(every) - LINES} more"] if len(every) > LINES else []
    return dated(printable("; ".join([*every[:LINES], *more])))


def dated(text: str) -> str:
    """Return a text with the current time, so that a resource input differs in every run."""
    return f"{text} ({datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ})"
