"""Events of pods and controllers as the API server returns them. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpu_cluster.kubernetes.api import Json
from gpu_cluster.nodes.causes.cause import shown
from gpu_rules.printable import printable


@dataclass(frozen=True, kw_only=True)
class Event:
    """An event of an object.

    Attributes:
        at: Time at which the event was last seen, in RFC 3339.
        reason: Reason, such as `FailedScheduling`.
        message: Message of the component that reported the event.
        reporter: Name that this component gave itself; whoever may create events chooses it.
        kind: Kind of the object.
        uid: UID of the object.
        part: Part of the object, such as `spec.containers{main}`.
        is_trusted: Whether only people whom the stack trusts can have written the event.
    """

    at: str
    reason: str
    message: str
    kind: str
    name: str
    uid: str = ""
    part: str = ""
    reporter: str = ""
    is_trusted: bool = False

    @property
    def trusted_message(self) -> str:
        """Return the message if it may decide which cure is printed, else an empty text."""
        return self.message if self.is_trusted else ""

    @property
    def quotation(self) -> str:
        """Return the message as words of its reporter, not of this program.

        The message can't end the quotation: it keeps no mark of this kind.
        """
        reporter = printable(self.reporter, 63) or "a component without a name"
        message = shown(self.message).replace("“", '"').replace("”", '"')
        return f"reported by {reporter}: “{message}”"


def newest_first(items: Iterable[Json], uid: str = "", *, trusted: bool = False) -> list[Event]:
    """Return events, the newest first.

    Who may write events in a namespace speaks for objects of that namespace only: an event about an
    object elsewhere is left out. Events about cluster-wide objects are in `default`.

    Args:
        items: Events (core/v1).
        uid: UID of an object; events of other objects are left out. Empty: all events.
        trusted: Whether only people whom the stack trusts can write the events.
    """
    events = [
        Event(
            at=_last_seen(item),
            reason=str(item.get("reason") or ""),
            message=str(item.get("message") or ""),
            kind=str(_involved_object(item).get("kind") or ""),
            name=str(_involved_object(item).get("name") or ""),
            uid=str(_involved_object(item).get("uid") or ""),
            part=str(_involved_object(item).get("fieldPath") or ""),
            reporter=str(
                item.get("reportingComponent") or (item.get("source") or {}).get("component") or ""
            ),
            is_trusted=trusted,
        )
        for item in items
        if _speaks_for_its_object(item) and (not uid or _involved_object(item).get("uid") == uid)
    ]
    return sorted(events, key=lambda event: event.at, reverse=True)


def newest(events: Iterable[Event], *reasons: str) -> Event | None:
    """Return the first of the events whose reason is one of the given reasons, or None."""
    return next((event for event in events if event.reason in reasons), None)


def newest_by_uid(events: Iterable[Event], reason: str) -> Mapping[str, Event]:
    """Return the newest event with a reason of each object, by the object's UID.

    Args:
        events: Events, the newest first.
        reason: Reason, such as `FailedCreate`.
    """
    by_uid: dict[str, Event] = {}
    for event in events:
        if event.uid and event.reason == reason:
            by_uid.setdefault(event.uid, event)
    return by_uid


def _speaks_for_its_object(item: Json) -> bool:
    namespace = (item.get("metadata") or {}).get("namespace") or "default"
    return namespace == (_involved_object(item).get("namespace") or "default")


def _involved_object(item: Json) -> Json:
    return item.get("involvedObject") or {}


def _last_seen(item: Json) -> str:
    """Return when an event was last seen.

    The scheduler writes `eventTime` and `series`; the kubelet writes `lastTimestamp`
    (k8s.io/api v0.34.4 core/v1/types.go, Event).
    """
    series = item.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        item.get("lastTimestamp"),
        item.get("eventTime"),
        item.get("firstTimestamp"),
        (item.get("metadata") or {}).get("creationTimestamp"),
    )
    return max((str(time) for time in times if time), default="")
