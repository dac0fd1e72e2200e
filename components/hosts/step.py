"""What a step of a host is: the files of its script, what they are given, and what is judged by it.

A step is `steps/<name>.sh` and `steps/<name>.py` beside it, found by their name. The module has
`STEP`. What of the stack file a step reads is in `DesiredHost`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from components.desired.host import DesiredHost
from components.host_facts import HostFacts
from components.hosts.compatibility import version
from components.settings.hosts.repository import Repositories
from components.settings.hosts.runtime import Engine
from policies.facts.floors import Software, below, wanted
from policies.faults import Fault, Severity

Row = tuple[str, ...]
RUNTIME_PATH = "/usr/bin/nvidia-container-runtime"
"""Where the toolkit's packages have it, as `steps/library/runtime.sh` has it."""
UNITS: Mapping[Engine, tuple[str, ...]] = {
    Engine.CONTAINERD: ("containerd",),
    Engine.DOCKER: ("docker", "containerd"),
    Engine.CRI_O: ("crio",),
    Engine.K3S: ("k3s", "k3s-agent"),
    Engine.RKE2: ("rke2-server", "rke2-agent"),
}
"""Services of each engine, from which containers inherit limits and a proxy."""


class Phase(StrEnum):
    """The phase that a step belongs to: a script of its own on each host."""

    PREPARE = "prepare"
    RUNTIME = "runtime"


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a host gives a step that it declares.

    Attributes:
        settings: shell assignments for the step's script.
        lists: rows by the shell function that has them (`components.hosts.script.each`).
        kept: of these lists the rows that a host keeps, where others are the script's own.
        repositories: rows of the repositories that it needs (`repositories`).
        runs: how often it may need a package manager or an installer; 0: it installs nothing.
        seconds: what it may take beside these runs.
        with_token: settings that hold kubeadm's bootstrap token, of the token: secrets.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    kept: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    repositories: tuple[Row, ...] = ()
    runs: int = 0
    seconds: int = 0
    with_token: Callable[[str], Mapping[str, str]] | None = None


def _nothing(host: DesiredHost, facts: HostFacts) -> Iterable[Fault]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of a phase.

    Attributes:
        given: what a host gives it; None where the host doesn't declare it.
        phase: the phase that it belongs to.
        after: name of the step before it; empty: it is among the first.
        files: files below `steps/`, without ``.sh``, in their order; none: the step's own alone.
        disrupts: the settings whose change disrupts the pods of the host's node.
        engines: the container engines that it is for; none: it is for all hosts.
        judge: what on a host contradicts its declaration or will do harm, of the probe's facts.
    """

    given: Callable[[DesiredHost], Given | None]
    phase: Phase = Phase.PREPARE
    after: str = ""
    files: tuple[str, ...] = ()
    disrupts: tuple[str, ...] = ()
    engines: tuple[Engine, ...] = ()
    judge: Callable[[DesiredHost, HostFacts], Iterable[Fault]] = _nothing


def said(truth: bool) -> str:
    """Return a truth as scripts read it."""
    return str(truth).lower()


def text_of(*lines: str) -> str:
    """Return a file of these lines, marked as ours."""
    return "".join(f"{line}\n" for line in ("# gpu-cluster", *lines))


def at_version(names: Sequence[str], version: str | None) -> str:
    """Return packages as words, each at a version where one is declared."""
    return " ".join(f"{name}={version}" if version else name for name in names)


def repositories(step: str, declared: Repositories) -> tuple[Row, ...]:
    """Return the rows of a step's repositories: package manager, step, name, then their own."""
    both = (("apt", declared.apt), ("dnf", declared.dnf))
    return tuple((manager, step, step, *one.row) for manager, one in both if one is not None)


def places(locations: Sequence[str]) -> tuple[Row, ...]:
    """Return the rows of a file's locations."""
    return tuple((location,) for location in locations)


def fault(
    host: DesiredHost, found: str, wanted: str, cure: str, severity: Severity = Severity.ERROR
) -> Fault:
    """Return what is wrong with a host."""
    return Fault(f"host {host.name}", found, wanted, cure, severity)


def below_floor(
    host: DesiredHost, part: Software, there: str, severity: Severity
) -> Iterator[Fault]:
    """Yield a fault where a version, declared or found, is below the security bulletins' floor.

    A toolkit stops the run: a container gets out through it. A driver doesn't, since another one
    takes the GPUs of every pod there.
    """
    border = below(part, there)
    if border is not None:
        cure = f"install or declare that version: {border}"
        yield fault(host, f"{part} {there}", wanted(part, there, border), cure, severity)


def old_engine(host: DesiredHost, there: str | None, oldest: tuple[int, int]) -> Iterator[Fault]:
    """Yield a fault where a host's container engine is missing or older than what works.

    Args:
        host: the host.
        there: version of its engine; None where there is none.
        oldest: the oldest one, major and minor.
    """
    name, wanted = host.sections.runtime.engine.value, f"{oldest[0]}.{oldest[1]} or later"
    if not host.role.has_gpus:
        return
    if there is None and host.sections.runtime.install is None:
        yield fault(host, f"no {name}", wanted, f"install {name}, or declare runtime.install")
    elif there is not None and version(there) < oldest:
        yield fault(host, f"{name} {there}", wanted, f"upgrade {name}")
