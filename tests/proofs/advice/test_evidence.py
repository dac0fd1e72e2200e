"""Cures of the signed evidence are followed: afterwards it can be made, or it holds.

A cure that distrusts a file is followed by evidence that `gpu-cluster evidence` makes from the
nodes' records; a cure that validates again, by records of a later validation.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.change.document import ClusterChange, Document, Outcome
from gpu_cluster.commands import stack, verify_evidence
from gpu_cluster.commands.evidence import __main__ as evidence
from gpu_cluster.commands.evidence import collect, envelope
from gpu_cluster.commands.evidence.check import Declared, require_holds
from gpu_cluster.commands.evidence.statement import (
    TIME,
    EvidenceError,
    Predicate,
    read,
    statement,
)
from gpu_cluster.inspection.extent import Extent
from gpu_cluster.validation.measurement import Outcome as Measured
from gpu_rules.faults import FaultError
from tests.commands.evidence.forged import (
    NOW,
    TEST,
    Json,
    check,
    content,
    declared,
    signed,
    uuid,
    write_keys,
)
from tests.commands.evidence.nodes import node
from tests.proofs.advice.rows import Record, note

FOLDER = "components/gpu_cluster/commands/evidence"
CHECK = f"{FOLDER}/check.py"
AGAIN = "validate the stack again and make new evidence"
DISTRUST = "do not trust the file"
STACK = """\
config:
  gpu-cluster:cluster:
    version: v1
    kubernetes: {context: test}
    platform: device-plugin
    pools: [{name: a100, nodes: ["gpu-[1-4]"], gpusPerNode: 8}]
"""
TESTS = {"tests": {"all-reduce": TEST}}
RESULT = {
    **{"test": "all-reduce", "node": "gpu-1", "pool": "a100", "figure": 300.0, "minimum": 250.0},
    **{"problem": "", "skipped": "", "simulated": False, "at": ""},
}


def made_again(about: Declared, now: datetime = NOW) -> bytes:
    """Return evidence of a validation just before a time, as `gpu-cluster evidence` makes it."""
    since = f"{now - timedelta(hours=1):{TIME}}"
    nodes = [node(f"gpu-{n}", n, about, since=since) for n in range(1, 5)]
    minimums = {test.name: test.minimum for test in about.validation.measuring.tests}
    measured = [
        Measured(test=name, node="gpu-1", pool="a100", figure=300.0, minimum=minimum)
        for name, minimum in minimums.items()
    ]
    predicate = Predicate(
        stack="test",
        made=f"{now:{TIME}}",
        until=f"{now + timedelta(days=30):{TIME}}",
        inspected="all",
        versions={},
        nodes=tuple(collect.entries(nodes, about.validation)),
        figures=tuple(collect.figures(measured)),
    )
    text = statement(predicate, about.file, about.sha256).text()
    return json.dumps(signed(text)).encode()


def _node(number: int, **fields: Any) -> Callable[[Json], object]:
    return lambda found: found["nodes"][number].update(fields)


def _twice(found: Json) -> None:
    found["nodes"][1]["devices"] = found["nodes"][0]["devices"]


def _figure(**fields: Any) -> Callable[[Json], object]:
    return lambda found: found.update(figures=[{**RESULT, **fields}])


FOUR: Json = {uuid(0, gpu): [] for gpu in range(4)}
DAY_AFTER = datetime(2026, 12, 21, tzinfo=UTC)
HELD: dict[str, tuple[str, Callable[[Json], object], datetime, dict[str, Any]]] = {
    "over": (AGAIN, lambda _: None, DAY_AFTER, {}),
    "for ever": (DISTRUST, lambda found: found.update(until="2099-01-01T00:00:00Z"), NOW, {}),
    "validated later": (DISTRUST, _node(0, since="2026-11-22T00:00:00Z"), NOW, {}),
    "a node twice": (DISTRUST, lambda found: found["nodes"].append(found["nodes"][0]), NOW, {}),
    "a node left out": (AGAIN, lambda found: found["nodes"].pop(), NOW, {}),
    "a GPU twice": (DISTRUST, _twice, NOW, {}),
    "another pool": (AGAIN, _node(0, pool="h100"), NOW, {}),
    "another number": (AGAIN, _node(0, declared=4, computed=4, devices=FOUR), NOW, {}),
    "another driver": (AGAIN, lambda _: None, NOW, {"driver": {"version": "595.71.05"}}),
    "a sum": (DISTRUST, _node(0, computed=7), NOW, {}),
    "no UUID": (DISTRUST, lambda found: found["nodes"][0]["devices"].pop(uuid(0, 0)), NOW, {}),
    "another test": (AGAIN, _figure(test="other"), NOW, {"validation": TESTS}),
    "another minimum": (AGAIN, _figure(minimum=1.0), NOW, {"validation": TESTS}),
    "below the minimum": (DISTRUST, _figure(figure=1.0), NOW, {"validation": TESTS}),
}


@pytest.mark.promise("A cure of the evidence removes the fault and brings no new one.")
@pytest.mark.advice("several")
@pytest.mark.parametrize("name", HELD)
def test_evidence_that_is_made_again_holds(name: str, record_property: Record) -> None:
    cure, change, now, settings = HELD[name]
    about = declared(**settings)
    made = content(declared())
    change(made["predicate"])
    wrong = signed(made)
    with pytest.raises(EvidenceError) as refused:
        check(wrong, about, now)
    check(made_again(about, now), about, now)
    for fault in refused.value.faults:
        assert cure in fault.cure
        note(record_property, CHECK, fault, cure)


@pytest.mark.advice("several")
def test_a_clock_that_is_set_accepts_the_evidence(record_property: Record) -> None:
    about = declared()
    made = signed(content(about))
    with pytest.raises(EvidenceError) as refused:
        check(made, about, datetime(2026, 11, 19, tzinfo=UTC))
    check(made, about, NOW)
    note(record_property, CHECK, refused.value.faults[0], "set the clock of this machine")


@pytest.mark.advice("several")
def test_the_revision_that_was_validated_fits_the_evidence(record_property: Record) -> None:
    about = declared()
    edited = replace(about, sha256="0" * 64)
    made = signed(content(about))
    with pytest.raises(EvidenceError) as refused:
        check(made, edited)
    check(made, about)
    check(made_again(edited), edited)
    note(record_property, CHECK, refused.value, "check out the revision that was validated")


@pytest.mark.advice("several")
def test_a_file_that_is_got_again_is_read(record_property: Record) -> None:
    about = declared()
    whole = json.dumps(signed(content(about))).encode()
    with pytest.raises(EvidenceError) as refused:
        check(whole[:-100], about)
    check(whole, about)
    note(record_property, f"{FOLDER}/statement.py", refused.value, "get the file again")


@pytest.mark.advice("several")
def test_a_validation_that_runs_again_leaves_records_of_its_form(record_property: Record) -> None:
    about = declared()
    nodes = [node(f"gpu-{number}", number, about) for number in range(1, 5)]
    odd = [node("gpu-1", 1, about, facts={"driver": "5" * 2000}), *nodes[1:]]
    with pytest.raises(EvidenceError) as refused:
        list(collect.entries(odd, about.validation))
    assert len(list(collect.entries(nodes, about.validation))) == 4
    note(record_property, f"{FOLDER}/collect.py", refused.value, "run `gpu-cluster validate` again")


@pytest.mark.advice("several")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_keys_that_the_cures_make_sign_and_check(tmp_path: Path, record_property: Record) -> None:
    found = []
    for read_key in (envelope.signer, envelope.public_key):
        with pytest.raises(EvidenceError) as refused:
            read_key(b"no key")
        found.append(refused.value)
        (fault,) = refused.value.faults
        command = fault.cure.partition("`")[2].rstrip("`").split()
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    signer = envelope.signer((tmp_path / "evidence.key").read_bytes())
    key = envelope.public_key((tmp_path / "evidence.pub").read_bytes())
    about = declared()
    text = envelope.sign(json.dumps(content(about)).encode(), signer)
    require_holds(read(envelope.verified(text.encode(), key)), about, NOW)
    for error in found:
        note(record_property, f"{FOLDER}/envelope.py", error, "make one with")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with a stack file and a key pair the project's folder."""
    (tmp_path / "Pulumi.test.yaml").write_text(STACK)
    write_keys(tmp_path)
    monkeypatch.setattr(stack, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STACK", "test")
    monkeypatch.setenv("JSON", "")
    return tmp_path


def _made(_: stack.Stack, now: datetime, valid: int) -> Predicate:
    """Return the evidence of nodes whose kernels were simulated, without a cluster."""
    about = declared()
    nodes = [node(f"gpu-{n}", n, about, simulated=True) for n in range(1, 5)]
    return Predicate(
        stack="test",
        made=f"{now:{TIME}}",
        until=f"{now + timedelta(days=valid):{TIME}}",
        inspected="all",
        versions={},
        nodes=tuple(collect.entries(nodes, about.validation)),
        figures=(),
    )


@pytest.mark.advice("several")
@pytest.mark.usefixtures("project")
def test_files_and_options_of_the_cures_make_and_check_evidence(
    monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    monkeypatch.setattr(evidence, "made", _made)
    with pytest.raises(FaultError) as no_key:
        evidence.main()
    evidence.main(key="evidence.key")
    with pytest.raises(FaultError) as simulated:
        verify_evidence.main(file="evidence-test.json", public="evidence.pub")
    verify_evidence.main(file="evidence-test.json", public="evidence.pub", simulated=True)
    main = f"{FOLDER}/__main__.py"
    note(record_property, main, no_key.value, "name the file with --key")
    verify = "components/gpu_cluster/commands/verify_evidence.py"
    note(record_property, verify, simulated.value, "for the evidence of a lab: --simulated")


@pytest.mark.advice("several")
def test_a_file_that_nobody_changes_gets_evidence(
    project: Path, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    def edits(about: stack.Stack, now: datetime, valid: int) -> Predicate:
        (project / "Pulumi.test.yaml").write_text(f"{STACK}# edited\n")
        return _made(about, now, valid)

    monkeypatch.setattr(evidence, "made", edits)
    with pytest.raises(FaultError) as refused:
        evidence.main(key="evidence.key")
    monkeypatch.setattr(evidence, "made", _made)
    evidence.main(key="evidence.key")
    verify_evidence.main(file="evidence-test.json", public="evidence.pub", simulated=True)
    cure = "make the evidence again while nobody changes the file"
    note(record_property, f"{FOLDER}/__main__.py", refused.value, cure)


@pytest.mark.advice("several")
@pytest.mark.usefixtures("project")
def test_an_inspection_that_is_not_switched_off_includes_the_cluster(
    monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    monkeypatch.setenv("GPU_CLUSTER_INSPECTION", "off")
    with pytest.raises(EvidenceError) as refused:
        evidence.made(stack.Stack.current(), NOW, 30)
    monkeypatch.delenv("GPU_CLUSTER_INSPECTION")
    assert Extent.wanted().has_cluster
    note(record_property, f"{FOLDER}/__main__.py", refused.value, "unset it")


CLEAN = Document(
    stack="test", outcome=Outcome.UNCHANGED, clusters=(ClusterChange(name="gpu-cluster"),)
)


@pytest.mark.advice("several")
def test_a_stack_that_is_as_its_file_declares_gets_evidence(record_property: Record) -> None:
    drifted = ClusterChange(name="gpu-cluster", unknown="not inspected")
    for document, cure in (
        (
            Document(stack="test", outcome=Outcome.FAILED, cause="host gpu-1: no answer"),
            "see `gpu-cluster status`",
        ),
        (
            Document(stack="test", outcome=Outcome.CHANGED, clusters=(drifted,)),
            "run `gpu-cluster up`, then make the evidence",
        ),
    ):
        with pytest.raises(EvidenceError) as refused:
            evidence.require_clean(document)
        evidence.require_clean(CLEAN)
        note(record_property, f"{FOLDER}/__main__.py", refused.value, cure)
