"""The verbs evidence and verify-evidence: keys, refusals, and one after the other."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from gpu_cluster.change.document import ClusterChange, Document, Outcome
from gpu_cluster.commands import stack, verify_evidence
from gpu_cluster.commands.evidence import __main__ as evidence
from gpu_cluster.commands.evidence import collect, envelope
from gpu_cluster.commands.evidence.__main__ import require_clean, validity
from gpu_cluster.commands.evidence.envelope import MAKE_KEY, MAKE_PUBLIC
from gpu_cluster.commands.evidence.statement import EvidenceError, Predicate
from gpu_rules.faults import FaultError
from tests.commands.evidence.forged import declared, write_keys
from tests.commands.evidence.nodes import node

FILE = """\
config:
  gpu-cluster:cluster:
    version: v1
    kubernetes: {context: test}
    platform: device-plugin
    pools: [{name: a100, nodes: ["gpu-[1-4]"], gpusPerNode: 8}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a stack file and a key pair, as the project's folder."""
    (tmp_path / "Pulumi.test.yaml").write_text(FILE)
    write_keys(tmp_path)
    monkeypatch.setattr(stack, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STACK", "test")
    monkeypatch.setenv("JSON", "")
    return tmp_path


def fake_cluster(monkeypatch: pytest.MonkeyPatch, *, simulated: bool = False) -> None:
    """Let a fake cluster have the records of four validated nodes, and be as declared."""
    about = declared()
    found = [node(f"gpu-{n}", n, about, simulated=simulated) for n in range(1, 5)]

    def made(_: stack.Stack, now: evidence.datetime, valid: int) -> Predicate:
        return Predicate(
            stack="test",
            made=f"{now:{evidence.TIME}}",
            until=f"{now + evidence.timedelta(days=valid):{evidence.TIME}}",
            inspected="all",
            versions={},
            nodes=tuple(collect.entries(found, about.validation)),
            figures=(),
        )

    monkeypatch.setattr(evidence, "made", made)


def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.promise(
    "`gpu-cluster verify-evidence` needs no network, no cluster and no private key."
)
def test_evidence_is_checked_without_a_network(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_cluster(monkeypatch)
    evidence.main(key="evidence.key")
    (folder / "evidence.key").unlink()
    no_network(monkeypatch)
    verify()
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("evidence: evidence-test.json: 32 GPUs, 32 computed, until ")
    assert shown[1].startswith("verify-evidence: stack test: 32 GPUs, 32 computed, made ")


def verify(*, public: str = "evidence.pub", simulated: bool = False) -> None:
    verify_evidence.main(file="evidence-test.json", public=public, simulated=simulated)


def refused(capsys: pytest.CaptureFixture[str], public: str = "evidence.pub") -> str:
    """Return why `gpu-cluster verify-evidence` exits with an error."""
    capsys.readouterr()
    with pytest.raises(FaultError) as ended:
        verify(public=public)
    return str(ended.value)


def test_an_edited_stack_file_ends_the_evidence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_cluster(monkeypatch)
    evidence.main(key="evidence.key")
    (folder / "Pulumi.test.yaml").write_text(FILE + "# edited\n")
    assert "digest of Pulumi.test.yaml" in refused(capsys)
    (folder / "Pulumi.test.yaml").write_text(FILE.replace("8}", "4}"))
    assert "node gpu-1: found 8 GPUs declared; wanted: 4" in refused(capsys)


@pytest.mark.promise("Evidence of simulated GPUs is refused unless `--simulated` asks for it.")
def test_simulated_kernels_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_cluster(monkeypatch, simulated=True)
    evidence.main(key="evidence.key")
    assert "32 GPUs whose kernel was only simulated" in refused(capsys)
    verify(simulated=True)
    assert "32 simulated" in capsys.readouterr().out


def test_missing_files_are_named_with_their_cure(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--file: found evidence-test.json, No such file" in refused(capsys)
    fake_cluster(monkeypatch)
    evidence.main(key="evidence.key")
    assert "--public: found none, No such file" in refused(capsys, "none")
    assert "found no public key" in refused(capsys, "evidence.key")
    with pytest.raises(FaultError, match="--key: found nothing"):
        evidence.main()


def test_the_answer_as_data_has_the_statement(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_cluster(monkeypatch)
    evidence.main(key="evidence.key")
    capsys.readouterr()
    monkeypatch.setenv("JSON", "1")
    verify()
    answer = json.loads(capsys.readouterr().out)
    assert answer["succeeded"]
    assert len(answer["evidence"]["predicate"]["nodes"]) == 4


def test_the_key_never_stands_in_the_evidence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cluster(monkeypatch)
    evidence.main(key="evidence.key")
    secret = (folder / "evidence.key").read_text().splitlines()[1]
    assert secret not in (folder / "evidence-test.json").read_text()


@pytest.mark.parametrize("text", ["0", "367", "-1", "1e2", "9" * 20, "٣"])
def test_a_number_of_days_has_bounds(text: str) -> None:
    assert (validity(""), validity("90")) == (30, 90)
    with pytest.raises(EvidenceError, match="--days"):
        validity(text)


def test_a_stack_that_differs_from_its_file_gets_no_evidence() -> None:
    cluster = ClusterChange(name="gpu-cluster")
    require_clean(Document(stack="test", outcome=Outcome.UNCHANGED, clusters=(cluster,)))
    for document in (
        Document(stack="test", outcome=Outcome.FAILED, cause="host gpu-1: no answer"),
        Document(
            stack="test",
            outcome=Outcome.CHANGED,
            clusters=(cluster.model_copy(update={"unknown": "not inspected"}),),
        ),
    ):
        with pytest.raises(EvidenceError, match="stack test"):
            require_clean(document)


def test_the_named_commands_make_keys_that_sign_and_check(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    for command in (MAKE_KEY, MAKE_PUBLIC):
        subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True, timeout=60)
    made = envelope.signer((tmp_path / "evidence.key").read_bytes())
    key = envelope.public_key((tmp_path / "evidence.pub").read_bytes())
    key.verify_signature(made.sign(b"evidence"), b"evidence")
