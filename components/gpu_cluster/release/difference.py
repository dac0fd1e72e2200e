"""Compare an installed platform with the desired and the last applied platform."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_cluster.findings import EMPTY, THERE, Aspect, Finding, Findings, Kind, Subject
from gpu_cluster.platforms.requests import Expected
from gpu_cluster.release.field_edits import FieldEdit
from gpu_cluster.release.helm_record import DEPLOYED, ReleaseRecord, same_values
from gpu_cluster.release.objects import ObjectsSeen
from gpu_rules.facts.transitions import released
from gpu_rules.printable import printable

SHOWN = 60
"""Maximum number of characters of a field's value in a finding."""


@dataclass(frozen=True, kw_only=True)
class PlatformDifference:
    """Differences of an installed platform.

    Attributes:
        missing: Objects that do not exist in the cluster.
        edited: Fields of the release's objects that somebody edited.
        unfinished: An installation or upgrade of the release that did not end.
        chart: A change of the Helm chart's version.
        is_upgraded: Whether the release gets other values, so that its pods may restart.
        values: Paths of the values that the installed release sets.
    """

    missing: Findings = ()
    edited: Findings = ()
    unfinished: Findings = ()
    chart: Findings = ()
    is_upgraded: bool = False
    values: tuple[str, ...] = ()

    @property
    def findings(self) -> Findings:
        """Return all differences."""
        return (*self.chart, *self.repaired)

    @property
    def repaired(self) -> Findings:
        """Return the differences that the program `presence` repairs or waits for."""
        return (*self.missing, *self.edited, *self.unfinished)


def compare(
    release: str,
    record: ReleaseRecord,
    observed: ObjectsSeen,
    version: str,
    values: Mapping[str, Any],
) -> PlatformDifference:
    """Compare an installed platform with the desired and the last applied platform.

    Helm's record lists the objects of the release. An extra object that no run has recorded yet
    was not created yet, so it is a change of the stack file and no drift.

    Args:
        release: Name of the release, for messages.
        record: Helm's newest record of the release.
        observed: Objects that are not as the last run left them.
        version: Desired version of the chart.
        values: Desired values of the chart.
    """
    noted, lost_objects = record.noted, []
    for item in observed.missing:
        gone = item.body is not None or (noted is not None and str(item) in noted.objects)
        lost_objects.append(
            Finding(Kind.DRIFT, Subject.OBJECT, str(item), Aspect.OBJECT, "", THERE, "missing")
            if gone
            else Finding(
                Kind.CHANGE, Subject.OBJECT, str(item), Aspect.OBJECT, "", "", THERE, first=True
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
    # Helm's record counts for a release that this program did not install. The version of a chart
    # from a source tree, such as v1.0.0-devel, belongs to no release and says nothing.
    running = noted.version if noted is not None else released(record.chart)
    if running and running.removeprefix("v") != version.removeprefix("v"):
        chart = (Finding(Kind.CHANGE, Subject.OBJECT, release, Aspect.CHART, "", running, version),)
    return PlatformDifference(
        missing=tuple(lost_objects),
        edited=tuple(
            _edited_field(item, edit) for item, edits in observed.edited.items() for edit in edits
        ),
        unfinished=() if record.status == DEPLOYED else (unfinished,),
        chart=chart,
        is_upgraded=not same_values(record.config, values),
        values=record.values,
    )


def _edited_field(item: Expected, edit: FieldEdit) -> Finding:
    """Return the finding about an edited field: by whom and when, before and after."""
    by = f" ({', '.join(filter(None, (edit.manager, edit.time)))})" if edit.manager else ""
    was, now = (_show_value(item, value) for value in (edit.was, edit.now))
    key = f"{edit.field}{by}"
    return Finding(Kind.DRIFT, Subject.OBJECT, str(item), Aspect.FIELD, key, was, now)


def _show_value(item: Expected, value: Any) -> str:
    """Return a field's value as text; a Secret's value is not shown."""
    if value is None:
        return ""
    if item.kind == "Secret":
        return f"a value with SHA-256 {hashlib.sha256(_value_text(value).encode()).hexdigest()[:8]}"
    return printable(_value_text(value) or EMPTY, SHOWN)


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def missing_objects(missing: Iterable[Expected]) -> PlatformDifference:
    """Return a difference for each deleted object of a platform without a Helm release."""
    return PlatformDifference(
        missing=tuple(
            Finding(Kind.DRIFT, Subject.OBJECT, str(item), Aspect.OBJECT, "", THERE, "missing")
            for item in missing
        )
    )
