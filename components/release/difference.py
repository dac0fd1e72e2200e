"""How the platform differs from what is desired, and from what was last applied. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from components.findings import Finding, Findings, Kind, Subject
from components.platforms.requests import Expected
from components.release.helm_record import DEPLOYED, ReleaseRecord


@dataclass(frozen=True, kw_only=True)
class PlatformDifference:
    """What was found of the platform.

    Attributes:
        missing: objects that aren't there.
        unfinished: an installation or upgrade of the release that did not end.
        chart: another version of the chart is desired.
    """

    missing: Findings = ()
    unfinished: Findings = ()
    chart: Findings = ()

    @property
    def findings(self) -> Findings:
        """All that was found."""
        return (*self.chart, *self.missing, *self.unfinished)


def compare(
    release: str, record: ReleaseRecord, missing: Iterable[Expected], version: str
) -> PlatformDifference:
    """Compare an installed platform with what is desired and with what was last applied.

    What a release consists of is in Helm's record. An object beside it that no run has found there
    isn't made yet: it is a part of what a person edited.

    Args:
        release: what messages call it.
        record: Helm's newest record of it.
        missing: the objects that aren't there.
        version: of the chart, as desired.
    """
    noted, found = record.noted, []
    for item in missing:
        gone = item.body is not None or (noted is not None and str(item) in noted.objects)
        found.append(
            _finding(Kind.DRIFT, str(item), "platform's object", "there", "missing")
            if gone
            else _finding(Kind.CHANGE, str(item), "platform's object", "", "there", first=True)
        )
    unfinished = _finding(
        Kind.DUE, release, f"revision {record.revision} is {record.status}: it did not end"
    )
    chart: Findings = ()
    if noted is not None and noted.version != version:
        chart = (_finding(Kind.CHANGE, release, "chart", noted.version, version),)
    return PlatformDifference(
        missing=tuple(found),
        unfinished=() if record.status == DEPLOYED else (unfinished,),
        chart=chart,
    )


def _finding(
    kind: Kind, name: str, what: str, was: str = "", now: str = "", *, first: bool = False
) -> Finding:
    return Finding(
        kind=kind, subject=Subject.OBJECT, name=name, what=what, was=was, now=now, first=first
    )
