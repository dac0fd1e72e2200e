"""Judge the changed versions of a run: supported, by way of other versions, not back. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from gpu_cluster.change.document import UpgradePath, VersionChange
from gpu_cluster.charts.value_table import SERIES, is_known
from gpu_cluster.platforms.discovery import SECTIONS, every
from gpu_rules.facts.floors import unknown_branch
from gpu_rules.facts.transitions import Verdict, histories, judge, parse
from gpu_rules.faults import Fault, FaultSeverity
from gpu_rules.printable import printable

_SOFTWARE: Mapping[str, str] = {
    "Kubernetes control plane": "kubernetes",
    "toolkit": "container-toolkit",
}
"""Names in the table of transitions of parts that a change document names otherwise."""
_SETTINGS: Mapping[str, str] = {
    "driver": "driver.version",
    "kubernetes": "kubernetesPackages.version",
    "container-toolkit": "runtime.toolkit.version",
}
"""Settings with the declared version of software that is no chart."""


def _software_of(part: str) -> str:
    """Return the name of a version change's software in the table of transitions."""
    return _SOFTWARE.get(part, part.removeprefix("chart "))


def upgrade_path(part: str, was: str, now: str, values: Collection[str]) -> UpgradePath | None:
    """Return what the publisher of a software documents about a change of its version.

    Args:
        part: Software as a change document names it.
        was: Running version; empty if the software is not installed.
        now: Declared version; empty if the software is removed.
        values: Paths of the values that the installed release of a chart sets.

    Returns:
        None if the software is installed or removed, or no source about it was read.
    """
    software = _software_of(part)
    if not was or not now or software not in histories():
        return None
    judged = judge(software, was, now, values)
    return UpgradePath(
        verdict=judged.verdict.value,
        path=tuple(map(printable, judged.path)),
        source=judged.source,
        read=judged.read,
        definitions=judged.definitions,
        dropped=judged.dropped,
        replaced=tuple(f"{name} {old or 'none'} → {new}" for name, old, new in judged.replaced),
        notes=(*judged.notes, *_unknown_weakness(software, now)),
    )


def _unknown_weakness(software: str, version: str) -> Iterator[str]:
    if software == "driver" and (sentence := unknown_branch(version)):
        yield sentence


def refused_upgrades(
    versions: Iterable[VersionChange], accepted: Mapping[str, str]
) -> Iterator[Fault]:
    """Yield a fault for each change of a version that its makers don't support in one step.

    Kubernetes is left out: the plan of the rollout refuses its changes (`rollout.skew`).

    Args:
        accepted: By software, the version from which an unsupported change is accepted.
    """
    for change in versions:
        support, software = change.support, _software_of(change.part)
        if support is None or software == "kubernetes":
            continue
        verdict = Verdict(support.verdict)
        same = accepted.get(software, "").removeprefix("v") == change.was.removeprefix("v")
        if not verdict.is_refused or same:
            continue
        consent = f'rollout.unsupportedFrom: {{{software}: "{change.was}"}}'
        path = " → ".join(support.path)
        by_way = verdict is Verdict.BY_WAY_OF
        yield Fault(
            f"{change.part} {change.was} → {change.now}",
            "an upgrade in one step, which its makers don't support"
            if by_way
            else "a way back, which its makers exclude",
            f"{path}: {support.source}, of {support.read}"
            if by_way
            else f"{change.was} or a later version: {support.source}, of {support.read}",
            f"{_first_step(software, support, change)}; or accept it: {consent}",
        )


def unsupported_kubernetes(chart: str, version: str, running: str) -> Iterator[Fault]:
    """Yield a warning if a chart's makers don't name the running Kubernetes for its version.

    Args:
        running: Version of the API server. Empty: unknown.
    """
    history = histories().get(chart)
    if history is None or not parse(running) or history.works_with(version, running):
        return
    oldest, newest = history.kubernetes[history.series(version)]
    yield Fault(
        f"chart {chart} {version}",
        f"Kubernetes {printable(running, 63)}",
        f"Kubernetes {oldest} to {newest}, for which its makers support it ({history.source}, of "
        f"{history.read})",
        "declare a chart version for this Kubernetes, or upgrade the cluster",
        FaultSeverity.WARNING,
    )


def _first_step(software: str, support: UpgradePath, change: VersionChange) -> str:
    """Return the act that begins the supported way."""
    setting = setting_of(software)
    if len(support.path) < 3:
        return f"write {setting}: {change.was}"
    step = support.path[1]
    unknown = software in SERIES and not is_known(software, step)
    accept = ", with unknownVersion: true," if unknown else ""
    return f"write {setting}: {step}{accept} run `gpu-cluster up`, then declare the next version"


def setting_of(software: str) -> str:
    """Return the setting that declares the version of software."""
    for section, platform in zip(SECTIONS, every(), strict=True):
        if platform.chart == software:
            return f"{section}.version"
    return _SETTINGS.get(software, "its version")
