"""Compare an installed platform with the desired and the last applied platform."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from components.findings import Aspect, Finding, Findings, Kind, Subject
from components.platforms.requests import Expected
from components.release.helm_record import DEPLOYED, ReleaseRecord


@dataclass(frozen=True, kw_only=True)
class PlatformDifference:
    """Differences of an installed platform.

    Attributes:
        missing: Objects that do not exist in the cluster.
        unfinished: An installation or upgrade of the release that did not end.
        chart: A change of the Helm chart's version.
    """

    missing: Findings = ()
    unfinished: Findings = ()
    chart: Findings = ()

    @property
    def findings(self) -> Findings:
        """Return all differences."""
        return (*self.chart, *self.missing, *self.unfinished)


def compare(
    release: str, record: ReleaseRecord, missing: Iterable[Expected], version: str
) -> PlatformDifference:
    """Compare an installed platform with the desired and the last applied platform.

    Helm's record lists the objects of the release. An extra object that no run has recorded yet
    was not created yet, so it is a change of the stack file and no drift.

    Args:
        release: Name of the release, for messages.
        record: Helm's newest record of the release.
        missing: Objects that do not exist in the cluster.
        version: Desired version of the chart.
    """
    noted, found = record.noted, []
    for item in missing:
        gone = item.body is not None or (noted is not None and str(item) in noted.objects)
        found.append(
            _finding(Kind.DRIFT, str(item), Aspect.OBJECT, "", "there", "missing")
            if gone
            else _finding(Kind.CHANGE, str(item), Aspect.OBJECT, "", "", "there", first=True)
        )
    unfinished = _finding(
        Kind.DUE,
        release,
        Aspect.REASON,
        f"revision {record.revision} is {record.status}: it did not end",
    )
    chart: Findings = ()
    if noted is not None and noted.version != version:
        chart = (_finding(Kind.CHANGE, release, Aspect.CHART, "", noted.version, version),)
    return PlatformDifference(
        missing=tuple(found),
        unfinished=() if record.status == DEPLOYED else (unfinished,),
        chart=chart,
    )


def missing_objects(missing: Iterable[Expected]) -> PlatformDifference:
    """Return a difference for each deleted object of a platform without a Helm release."""
    return PlatformDifference(
        missing=tuple(
            _finding(Kind.DRIFT, str(item), Aspect.OBJECT, "", "there", "missing")
            for item in missing
        )
    )


def _finding(
    kind: Kind,
    name: str,
    aspect: Aspect,
    key: str,
    was: str = "",
    now: str = "",
    *,
    first: bool = False,
) -> Finding:
    return Finding(
        kind=kind,
        subject=Subject.OBJECT,
        name=name,
        aspect=aspect,
        key=key,
        was=was,
        now=now,
        first=first,
    )
