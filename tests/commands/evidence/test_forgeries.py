"""Evidence that was forged, or that no longer holds, is refused by its own reason."""

from __future__ import annotations

import json
import tracemalloc
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from gpu_cluster.commands.evidence.check import Declared
from gpu_cluster.commands.evidence.statement import EvidenceError
from tests.commands.evidence.forged import (
    OURS,
    TEST,
    THEIRS,
    Json,
    changed,
    check,
    content,
    declared,
    keyid,
    of_another_file,
    raw,
    signed,
    uuid,
)

Forgery = Callable[[Declared], Json | bytes]


def test_evidence_as_it_was_made_holds() -> None:
    about = declared()
    check(signed(content(about)), about)


def edited(about: Declared) -> Json:
    """Change a UUID after the signature."""
    made = signed(content(about))
    text = b64decode(made["payload"]).replace(uuid(0, 0).encode(), uuid(9, 9).encode())
    return {**made, "payload": b64encode(text).decode()}


def under_our_name(about: Declared) -> Json:
    """Sign with another key, and claim the identifier of ours."""
    made = signed(content(about), THEIRS)
    made["signatures"][0]["keyid"] = keyid(OURS)
    return made


def unsigned(about: Declared) -> Json:
    return {**signed(content(about)), "signatures": []}


def another_type(about: Declared) -> Json:
    """Pass off a document that we signed for something else."""
    return signed(content(about), payload_type="text/plain")


def another_predicate(about: Declared) -> Json:
    """Pass off an in-toto statement of ours about something else."""
    return signed({**content(about), "predicateType": "https://slsa.dev/provenance/v1"})


def twice_the_same_key(about: Declared) -> Json:
    """Give two readers two numbers of GPUs."""
    text = json.dumps(content(about)).replace('"computed": 8', '"computed": 0, "computed": 8', 1)
    return signed(text.encode())


def of_another_stack(about: Declared) -> Json:
    return signed(changed(about, lambda found: found.update(stack="lab")))


def left_out(about: Declared) -> Json:
    """Leave out a node, such as one whose GPUs failed."""
    return signed(changed(about, lambda found: found["nodes"].pop()))


def counted_twice(about: Declared) -> Json:
    """Show the same GPU on two nodes."""

    def change(found: Json) -> None:
        devices = found["nodes"][1]["devices"]
        devices.pop(uuid(1, 0))
        devices[uuid(0, 0)] = []

    return signed(changed(about, change))


def made_up(about: Declared) -> Json:
    """Count GPUs that have no UUID."""
    return signed(changed(about, lambda found: found["nodes"][0]["devices"].pop(uuid(0, 0))))


FORGERIES: dict[str, tuple[Forgery, str]] = {
    "a GPU exchanged": (edited, "envelope signatures: found a signature that does not fit"),
    "another key": (lambda about: signed(content(about), THEIRS), f"only key {keyid(THEIRS)}"),
    "another key under our name": (under_our_name, "found a signature that does not fit"),
    "no signature": (unsigned, "envelope signatures: found no signature"),
    "the type not signed": (
        lambda about: raw(content(about)),
        "found a signature that does not fit",
    ),
    "another payload type": (another_type, "envelope payloadType: found text/plain"),
    "another predicate": (another_predicate, "statement predicateType"),
    "a key twice": (twice_the_same_key, "a key that occurs twice in one object"),
    "another stack": (of_another_stack, "stack: found lab; wanted: test"),
    "a node left out": (left_out, "node gpu-4: found no entry"),
    "a GPU counted twice": (counted_twice, f"GPU {uuid(0, 0)}: found 2 entries"),
    "a GPU made up": (made_up, "node gpu-1: found 7 UUIDs"),
}


@pytest.mark.promise(
    "`gpu-cluster verify-evidence` refuses evidence that was changed, signed by somebody "
    "else, made for "
    "another purpose or stack, or that leaves out or makes up a GPU."
)
@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forgery_is_refused_by_its_reason(forgery: str) -> None:
    about = declared()
    forge, reason = FORGERIES[forgery]
    with pytest.raises(EvidenceError) as refused:
        check(forge(about), about)
    assert reason in str(refused.value)
    assert len(refused.value.faults) == 1


DATES: dict[str, tuple[str, str, datetime, str]] = {
    "over": (
        "made",
        "2026-11-20T00:00:00Z",
        datetime(2026, 12, 20, tzinfo=UTC),
        "which is in the past",
    ),
    "in the future": (
        *("made", "2026-11-27T00:00:00Z", datetime(2026, 11, 26, tzinfo=UTC)),
        "in the future",
    ),
    "for ever": (
        *("until", "2099-01-01T00:00:00Z", datetime(2026, 11, 26, tzinfo=UTC)),
        "at most 366 days",
    ),
}


@pytest.mark.promise("Evidence ends to hold at the date that it names.")
@pytest.mark.parametrize("case", DATES)
def test_a_date_that_does_not_hold_is_refused(case: str) -> None:
    about = declared()
    field, value, now, reason = DATES[case]
    made = signed(changed(about, lambda found: found.update({field: value})))
    with pytest.raises(EvidenceError, match=reason):
        check(made, about, now)


@pytest.mark.promise(
    "Evidence no longer holds once the stack file declares another driver, or is edited at all."
)
def test_a_fact_that_no_longer_holds_is_named() -> None:
    made = signed(content(declared()))
    later = declared(b"edited", driver={"version": "595.71.05"})
    with pytest.raises(EvidenceError) as refused:
        check(made, later)
    assert "node gpu-1 driver.version: found any; wanted: 595.71.05" in str(refused.value)
    assert "digest" not in str(refused.value)
    with pytest.raises(EvidenceError, match=r"digest of Pulumi\.test\.yaml"):
        check(made, of_another_file(declared()))


def result(about: Declared, **fields: object) -> Json:
    """Return signed evidence with the result of a test on a node."""
    found = {
        **{"test": "all-reduce", "node": "gpu-1", "pool": "a100", "figure": 300.0},
        **{"minimum": 250.0, "problem": "", "skipped": "", "simulated": False, "at": ""},
        **fields,
    }
    return signed(changed(about, lambda made: made.update(figures=[found])))


def test_a_figure_below_what_the_stack_declares_is_refused() -> None:
    about = declared(validation={"tests": {"all-reduce": TEST}})
    check(result(about), about)
    for fields, reason in (
        ({"figure": 200.0}, "200.0, reported as passed"),
        ({"figure": 200.0, "minimum": 100.0}, "minimum: found 100.0"),
        ({"test": "other"}, "only for tests and nodes of the stack"),
    ):
        with pytest.raises(EvidenceError, match=reason):
            check(result(about, **fields), about)


MALFORMED: dict[str, Callable[[Json], Json | bytes]] = {
    "no JSON": lambda _: b"{",
    "no object": lambda _: b"[]",
    "nested without end": lambda _: b"[" * 100_000,
    "an unknown field": lambda made: {**made, "extra": 1},
    "base64 for addresses": lambda made: {**made, "payload": made["payload"][:-4] + "_-=="},
    "base64 with a line break": lambda made: {**made, "payload": made["payload"] + "\n"},
    "two signatures of one key": lambda made: {**made, "signatures": made["signatures"] * 2},
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_envelope_is_refused(case: str) -> None:
    about = declared()
    with pytest.raises(EvidenceError):
        check(MALFORMED[case](signed(content(about))), about)


def test_a_file_that_nobody_signed_needs_little_memory() -> None:
    hostile = b'{"a":[' + b",".join([b'{"a":1}'] * 100_000) + b"]}"
    tracemalloc.start()
    try:
        with pytest.raises(EvidenceError):
            check(hostile, declared())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(hostile)


VALUES: dict[str, Callable[[Json], object]] = {
    "a number as text": lambda found: found["nodes"][0].update(computed="8"),
    "a fraction of a GPU": lambda found: found["nodes"][0].update(computed=8.0),
    "more GPUs than a node can have": lambda found: found["nodes"][0].update(declared=10**9),
    "a UUID with a control character": lambda found: found["nodes"][0]["devices"].update(
        {"GPU-\u001b[2J0000000": []}
    ),
    "a UUID with a line break": lambda found: found["nodes"][0]["devices"].update(
        {uuid(7, 7) + "\n": []}
    ),
    "a long fact": lambda found: found["nodes"][0]["facts"].update(driver="5" * 2000),
    "many facts": lambda found: found["versions"].update({str(n): "1" for n in range(100)}),
    "no such day": lambda found: found.update(made="2026-02-30T00:00:00Z"),
    "a path as the stack": lambda found: found.update(stack="../../etc/passwd"),
    "no nodes": lambda found: found.update(nodes=[]),
}


@pytest.mark.parametrize("case", VALUES)
def test_a_statement_has_a_schema_and_bounds(case: str) -> None:
    about = declared()

    def change(found: Json) -> None:
        VALUES[case](found)

    with pytest.raises(EvidenceError, match="statement") as refused:
        check(signed(changed(about, change)), about)
    assert "\x1b" not in str(refused.value)
