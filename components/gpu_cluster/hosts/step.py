"""A step of a host's preparation: its script files, their inputs, and the checks of the host.

A step consists of `steps/<name>.sh` and `steps/<name>.py`, which are discovered by their names. The
Python module has a variable `STEP`. A step reads its settings from `DesiredHost`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from gpu_cluster.base.compatibility import version
from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.host_facts import UNREAD, HostFacts
from gpu_cluster.settings.hosts.repository import Repositories
from gpu_cluster.settings.hosts.runtime import Engine
from gpu_rules.facts.floors import Software, below, wanted
from gpu_rules.faults import Fault, FaultSeverity

Row = tuple[str, ...]
NO_VERSION = "read what its --version prints on the host, and install it from a package"
"""Cure of a program whose version can't be read."""
RUNTIME_PATH = "/usr/bin/nvidia-container-runtime"
"""Path of the NVIDIA runtime in the toolkit's packages, as in `steps/library/runtime.sh`."""
UNITS: Mapping[Engine, tuple[str, ...]] = {
    Engine.CONTAINERD: ("containerd",),
    Engine.DOCKER: ("docker", "containerd"),
    Engine.CRI_O: ("crio",),
    Engine.K3S: ("k3s", "k3s-agent"),
    Engine.RKE2: ("rke2-server", "rke2-agent"),
}
"""Systemd services of each engine, from which containers inherit limits and proxy settings."""


class Phase(StrEnum):
    """Phase that a step belongs to; each phase is a separate script on each host."""

    PREPARE = "prepare"
    RUNTIME = "runtime"


@dataclass(frozen=True, kw_only=True)
class Given:
    """Inputs of a step on a host that declares the step.

    Attributes:
        settings: Shell assignments for the step's script.
        lists: Rows by the name of the shell function that lists them
            (`gpu_cluster.hosts.script.each`).
        kept: Rows that a host records, if only a part of the rows in `lists` is from the settings.
        repositories: Rows of the repositories that the step needs (function `repositories`).
        runs: How often the step may run a package manager or an installer; 0: it installs nothing.
        seconds: Seconds that the step may take in addition to these runs.
        with_token: Function from kubeadm's bootstrap token to settings that contain it; the
            settings are secrets.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    kept: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    repositories: tuple[Row, ...] = ()
    runs: int = 0
    seconds: int = 0
    with_token: Callable[[str], Mapping[str, str]] | None = None


def _judge_nothing(host: DesiredHost, facts: HostFacts) -> Iterable[Fault]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of a host's preparation or container runtime.

    Attributes:
        given: Function that returns the step's inputs for a host; None if the host does not declare
            the step.
        does: What the step does to a host, a verb first. Empty: its name says it.
        phase: Phase that the step belongs to.
        after: Name of the step that must run before this step. Empty: none.
        files: Files relative to `steps/`, without `.sh`, in order. Empty: only the step's own file.
        disrupts: Settings whose change disrupts the pods of the host's node.
        engines: Container engines that the step is for. Empty: all hosts.
        writes: Configuration files that the step may place or edit, without files of packages.
        judge: Function that returns faults about a host whose facts don't fit its settings.
    """

    given: Callable[[DesiredHost], Given | None]
    does: str = ""
    phase: Phase = Phase.PREPARE
    after: str = ""
    files: tuple[str, ...] = ()
    disrupts: tuple[str, ...] = ()
    engines: tuple[Engine, ...] = ()
    writes: tuple[str, ...] = ()
    judge: Callable[[DesiredHost, HostFacts], Iterable[Fault]] = _judge_nothing


def said(truth: bool) -> str:
    """Return a boolean as the text that host scripts expect: `true` or `false`."""
    return str(truth).lower()


def text_of(*lines: str) -> str:
    """Return the text of a configuration file: a header that names the project, then the lines."""
    return "".join(f"{line}\n" for line in ("# gpu-cluster", *lines))


def at_version(names: Sequence[str], version: str | None) -> str:
    """Return package names separated by spaces, each with the version if one is declared."""
    return " ".join(f"{name}={version}" if version else name for name in names)


def repositories(step: str, declared: Repositories) -> tuple[Row, ...]:
    """Return the rows of a step's repositories.

    A row has the package manager, the step, the name, then the repository's own fields.
    """
    both = (("apt", declared.apt), ("dnf", declared.dnf))
    return tuple(
        (manager, step, step, *repository.row)
        for manager, repository in both
        if repository is not None
    )


def places(locations: Sequence[str]) -> tuple[Row, ...]:
    """Return one row for each location (URL) of a download."""
    return tuple((location,) for location in locations)


def fault(
    host: DesiredHost,
    found: str,
    wanted: str,
    cure: str,
    severity: FaultSeverity = FaultSeverity.ERROR,
) -> Fault:
    """Return a fault about a host."""
    return Fault(f"host {host.name}", found, wanted, cure, severity)


def below_floor(
    host: DesiredHost, software: Software, version_text: str, severity: FaultSeverity
) -> Iterator[Fault]:
    """Yield a fault if a declared or installed version is below the security bulletins' floor.

    An old toolkit is an error, because a container can escape through it. An old driver is not,
    because a driver upgrade takes the GPUs away from every pod on the host.
    """
    border = below(software, version_text)
    if border is not None:
        cure = f"install or declare that version: {border}"
        yield fault(
            host,
            f"{software} {version_text}",
            wanted(software, version_text, border),
            cure,
            severity,
        )


def _engines(facts: HostFacts) -> list[str]:
    """Return the container engines with a version of their own that are installed."""
    versions = {
        Engine.CONTAINERD: facts.containerd,
        Engine.DOCKER: facts.docker,
        Engine.CRI_O: facts.crio,
    }
    return [
        engine.value for engine, engine_version in versions.items() if engine_version is not None
    ]


def old_engine(
    host: DesiredHost, facts: HostFacts, installed: str | None, oldest: tuple[int, int]
) -> Iterator[Fault]:
    """Yield a fault if a host's container engine is missing or too old.

    Args:
        installed: Version of the installed engine. None: not installed.
        oldest: Oldest supported version: major and minor number.
    """
    name, wanted = host.sections.runtime.engine.value, f"{oldest[0]}.{oldest[1]} or later"
    # Software with its own engine is named by the step `toolkit`; another engine would not help.
    if not host.role.has_gpus or facts.foreign:
        return
    if installed is None and host.sections.runtime.install is None:
        cure = f"install {name}, or declare runtime.install"
        if other_engines := [*facts.distributions, *_engines(facts)]:
            has = f"no {name}, but {' and '.join(other_engines)}"
            cure = f"declare runtime.engine: {other_engines[0]}, or {cure}"
            yield fault(host, has, wanted, cure)
        else:
            yield fault(host, f"no {name}", wanted, cure)
    elif installed == UNREAD:
        yield fault(host, f"{name} without a version", wanted, NO_VERSION)
    elif installed is not None and version(installed) < oldest:
        yield fault(host, f"{name} {installed}", wanted, f"upgrade {name}")
