"""Evidence collected from Node objects, and checked again after its signature."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gpu_cluster.commands.evidence.__main__ import envelope
from gpu_cluster.commands.evidence.check import Declared, require_holds, totals
from gpu_cluster.commands.evidence.collect import entries, figures
from gpu_cluster.commands.evidence.statement import EvidenceError, Predicate, read, statement
from gpu_cluster.validation.measurement import Outcome
from tests.commands.evidence.forged import NOW, OURS, Json, declared, pem, uuid
from tests.commands.evidence.nodes import node


def predicate(nodes: list[Json], about: Declared) -> Predicate:
    return Predicate(
        stack="test",
        made="2026-11-20T00:00:00Z",
        until="2026-12-20T00:00:00Z",
        inspected="all",
        versions={},
        nodes=tuple(entries(nodes, about.validation)),
        figures=(),
    )


@pytest.mark.promise(
    "Evidence names each GPU that ran a kernel by its UUID, and counts GPUs whose kernel was only "
    "simulated, or that other pods held, apart."
)
def test_what_the_nodes_records_hold_is_signed_and_holds() -> None:
    about = declared()
    few = {uuid(3, gpu): [] for gpu in range(6)}
    nodes = [
        node("gpu-1", 0, about),
        node("gpu-2", 1, about),
        node("gpu-3", 2, about, simulated=True),
        node("gpu-4", 3, about, devices=few, missing=2, held="pod a/b"),
    ]
    made = statement(predicate(nodes, about), about.file, about.sha256)
    signed = envelope.sign(made.text(), envelope.signer(private_pem()))
    found = read(envelope.verified(signed.encode(), envelope.public_key(pem(OURS))))
    assert found == made
    require_holds(found, about, NOW)
    assert totals(found.predicate.nodes) == {
        "declared": 32,
        "computed": 22,
        "simulated": 8,
        "deferred": 2,
    }
    assert set(found.predicate.nodes[3].devices) == set(few)


def private_pem() -> bytes:
    return OURS.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_a_node_without_a_record_is_not_validated() -> None:
    about = declared()
    nodes = [node(f"gpu-{number}", number, about) for number in range(1, 4)]
    nodes.append({"metadata": {"name": "gpu-4"}, "status": {}})
    last = list(entries(nodes, about.validation))[-1]
    assert (last.computed, last.deferred, last.devices) == (0, 8, {})


def test_a_record_of_another_form_is_refused_by_node() -> None:
    about = declared()
    nodes = [node(f"gpu-{number}", number, about) for number in range(1, 5)]
    nodes[1] = node("gpu-2", 2, about, facts={"driver": "5" * 2000})
    with pytest.raises(EvidenceError, match=r"node gpu-2 facts\.driver"):
        list(entries(nodes, about.validation))
    with pytest.raises(EvidenceError, match="test t on gpu-1 at"):
        list(figures([Outcome(test="t", node="gpu-1", pool="a100", at="yesterday")]))


@pytest.mark.parametrize("text", [b"", b"no key", pem(OURS)], ids=["empty", "text", "public"])
def test_a_private_key_of_another_form_is_refused(text: bytes) -> None:
    with pytest.raises(EvidenceError, match="openssl genpkey"):
        envelope.signer(text)
