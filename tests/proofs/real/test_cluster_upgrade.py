"""Upgrade a cluster of real components to the next Kubernetes version by one `up`.

Real components are those of `tests/proofs/real/test_bare_cluster.py`, and kubeadm, kubelet, kubectl
and control plane of two versions. The earlier version's etcd image contains the etcd of the later
version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from gpu_cluster.nodes.record import RECORD
from lab.real import parts
from tests.kubeadm_refusals import refusals
from tests.proofs.real.bare import MARKS, ROLES, Stack, standing

pytestmark = [
    *MARKS,
    pytest.mark.skipif(not parts.EARLIER, reason=f"no version before {parts.KUBELET} is pinned"),
]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with standing(tmp_path_factory.mktemp("upgraded"), parts.EARLIER) as made:
        yield made


@pytest.fixture(scope="module")
def answers(stack: Stack) -> dict[str, str]:
    """Return kubeadm's error messages for versions to which it can't upgrade."""
    (first, *_) = stack.site.machines
    line = "kubeadm upgrade apply --yes --ignore-preflight-errors=all %s 2>&1 || true"
    return {version: first.run(line % version) for version in dict(refusals(parts.KUBELET))}


def versions(stack: Stack) -> dict[str, str]:
    """Return the versions of the API server and of each node's kubelet."""
    nodes = stack.kubectl("get nodes")["items"]
    kubelets = {
        node["metadata"]["name"]: str(node["status"]["nodeInfo"]["kubeletVersion"])
        for node in nodes
    }
    return {**kubelets, "server": stack.kubectl("version")["serverVersion"]["gitVersion"]}


def validated(stack: Stack) -> dict[str, str]:
    """Return the time of the last validation of each node."""
    notes = {
        node["metadata"]["name"]: str(node["metadata"]["annotations"][RECORD])
        for node in stack.kubectl("get nodes")["items"]
    }
    found = {name: re.search(r"\d{4}-\d\d-\d\dT[\d:]+Z", note) for name, note in notes.items()}
    return {name: match[0] for name, match in found.items() if match}


def test_a_cluster_is_made_at_the_earlier_version(stack: Stack) -> None:
    done = stack.project.command("up")
    assert done.returncode == 0, done.stdout
    assert stack.gpus() == dict.fromkeys(ROLES, "8")
    assert versions(stack) == dict.fromkeys((*ROLES, "server"), f"v{parts.EARLIER}")


def test_one_up_brings_control_plane_then_worker_to_the_next_version(stack: Stack) -> None:
    stack.project.edit(lambda cluster: cluster["kubernetesPackages"].update(version=parts.KUBELET))
    preview = stack.project.command("preview")
    assert preview.returncode == 0, preview.stdout
    assert (f"Kubernetes control plane {parts.EARLIER} → {parts.KUBELET} on cp-1") in preview.stdout
    before = validated(stack)
    done = stack.project.command("up")
    assert done.returncode == 0, done.stdout
    assert "up: 16 of 16 GPUs simulated" in done.stdout
    after = validated(stack)
    assert max(before.values()) < after["cp-1"] < after["gpu-1"], "each in its turn"
    assert versions(stack) == dict.fromkeys((*ROLES, "server"), f"v{parts.KUBELET}")
    wanted = stack.tagged(parts.KUBELET)
    assert {name: stack.static_pods()[name] for name in wanted} == wanted
    assert stack.gpus() == dict.fromkeys(ROLES, "8")
    spec = [node["spec"] for node in stack.kubectl("get nodes")["items"]]
    assert not [each for each in spec if each.get("unschedulable")]


def test_the_second_up_changes_nothing(stack: Stack) -> None:
    done = stack.project.command("up")
    assert "16 of 16 GPUs simulated, 0 resources changed" in done.stdout, done.stdout


@pytest.mark.parametrize(("version", "words"), refusals(parts.KUBELET))
def test_kubeadm_refuses_versions_in_the_words_of_the_fake_one(
    answers: dict[str, str], version: str, words: str
) -> None:
    assert words in answers[version]


def test_going_down_leaves_the_hosts_as_before(stack: Stack) -> None:
    stack.down()
