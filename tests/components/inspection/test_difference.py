"""Unit tests of applied settings that hosts and nodes keep, and the findings from them."""

from __future__ import annotations

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.findings import NOTHING, lines, told
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.difference import compare, desired_phases
from gpu_cluster.hosts.kubeadm.scripts import join_script
from gpu_cluster.hosts.phases import prepare_script
from gpu_cluster.hosts.script import words
from gpu_cluster.nodes.applied import BOUND, PREFIX, applied, every
from gpu_cluster.settings.cluster import Cluster
from tests.desired_host import desired_host
from tests.findings import found
from tests.fixtures.clusters import HOST_KEY, cluster

HASH = f"sha256:{'0123456789abcdef' * 4}"


def joining() -> Cluster:
    """Return a stack that creates its cluster with kubeadm on its first host."""
    network = {"manifest": "cni.yaml"}
    init = {"endpoint": "192.0.2.9:6443", "podSubnet": "10.244.0.0/16", "network": network}
    return cluster(kubernetesPackages={"version": "1.34.1", "init": init})


def test_what_a_host_keeps_of_a_token_is_nothing() -> None:
    declared = joining()
    host = desired_host(declared)
    first, second = (join_script(host, f"abcdef.{each * 16}", (HASH,)) for each in "01")
    assert first != second
    desired = desired_phases(host, resolve(declared, "dev").kubeadm)["cluster"]
    assert desired is not None
    assert first.settings == second.settings == desired.settings
    assert not any("abcdef" in word for word in first.settings.values())


def test_what_a_host_keeps_is_a_few_words_of_each_setting() -> None:
    long = "x" * 200
    kept = words(
        {"GC_PHASE": "p", "GC_JOIN": "secret", "GC_A": "1 2", "GC_B": long, "GC_C": "a\nb",
         "GC_D": "", "GC_HTTP_PROXY": "http://me:password@192.0.2.1:3128"},
        {"each_row": [("k", "v"), ("k", "w")], "each_place": [("here",), ("there",)]},
    )  # fmt: skip
    assert kept.keys() == {"A", "B", "C", "HTTP_PROXY", "row.k", "place"}
    assert (kept["A"], kept["row.k"], kept["place"]) == ("1 2", "v w", "here there")
    assert all(len(kept[name]) == 12 for name in ("B", "C", "HTTP_PROXY"))


def test_another_release_of_a_script_is_a_change_and_an_old_probe_knows_nothing() -> None:
    host = desired_host(cluster())
    declaration = prepare_script(host)
    names = {bundle.name: bundle.line for bundle in declaration.bundles}
    older = HostFacts(
        applied=("prepare", "runtime"),
        settings={"prepare": declaration.settings},
        steps={"prepare": (*list(names.values())[1:], f"library-{'0' * 64}")},
    )
    (finding,) = compare([host], None, {host.name: older}).findings
    assert (finding.what, finding.was) == ("this program's script library", "0" * 8)
    unknown = HostFacts(applied=("prepare", "runtime"))
    assert compare([host], None, {host.name: unknown}).findings == ()
    assert {name for name, phase in desired_phases(host, None).items() if phase} == {
        "prepare",
        "runtime",
    }


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "1", '{"stack": "s"}', "x" * (BOUND + 1),
     '{"stack":"s","pool":"p","gpus":true,"labels":{},"taints":[]}',
     '{"stack":"s","pool":"p","gpus":8,"labels":{"a":1},"taints":[]}',
     '{"stack":"s","pool":"p","gpus":8,"labels":{},"taints":["k"]}',
     '{"stack":"s","pool":"p","gpus":8,"labels":{},"taints":[],"more":1}'],
)  # fmt: skip
def test_what_is_no_record_of_an_application_is_none(text: str) -> None:
    node = {"metadata": {"name": "n", "annotations": {f"{PREFIX}p": text}}}
    assert applied(node, "p") is None
    assert list(every(node, "s")) == []


def test_a_record_counts_for_its_own_pool_and_stack_alone() -> None:
    text = '{"stack":"s","pool":"p","gpus":8,"labels":{},"taints":[]}'
    node = {"metadata": {"name": "n", "annotations": {f"{PREFIX}p": text, f"{PREFIX}q": text}}}
    assert [record.pool for record in every(node, "s")] == ["p"]
    assert list(every(node, "other")) == []


def test_many_findings_are_a_bounded_input_of_a_command() -> None:
    many = [found(f"drift: node gpu-{each}: label {each}", was="a") for each in range(500)]
    assert len(lines(many)) == 500
    assert lines(many)[0] == f"drift: node gpu-0: label 0 a → {NOTHING}"
    assert "; and 480 more (" in told(many)
    assert HOST_KEY not in told(many)
