"""Compare an installed platform with the desired and the last applied platform."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpu_cluster.findings import Aspect, Finding, Findings, Kind, Subject
from gpu_cluster.platforms.requests import Expected
from gpu_cluster.release.helm_record import DEPLOYED, ReleaseRecord


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
            Finding(Kind.DRIFT, Subject.OBJECT, str(item), Aspect.OBJECT, "", "there", "missing")
            if gone
            else Finding(
                Kind.CHANGE, Subject.OBJECT, str(item), Aspect.OBJECT, "", "", "there", first=True
            )
        )
    unfinished = Finding(
        Kind.DUE,
        Subject.OBJECT,
        release,
        Aspect.REASON,
        f"revision {record.revision} is {record.status}: it did not end",
    )
    chart: Findings = ()
    if noted is not None and noted.version != version:
        chart = (
            Finding(Kind.CHANGE, Subject.OBJECT, release, Aspect.CHART, "", noted.version, version),
        )
    return PlatformDifference(
        missing=tuple(found),
        unfinished=() if record.status == DEPLOYED else (unfinished,),
        chart=chart,
    )


def missing_objects(missing: Iterable[Expected]) -> PlatformDifference:
    """Return a difference for each deleted object of a platform without a Helm release."""
    return PlatformDifference(
        missing=tuple(
            Finding(Kind.DRIFT, Subject.OBJECT, str(item), Aspect.OBJECT, "", "there", "missing")
            for item in missing
        )
    )
