"""Turn two bare Debian hosts into a cluster with 16 validated GPUs, by real components.

Real components are Pulumi, apt, containerd and runc of Debian, kubeadm, kubelet and kubectl, etcd
and the control plane as static pods, NVIDIA Container Toolkit and device plugin, the scripts over
SSH, and the network between program, API server and kubelets. `tests.proofs.real.bare` lists the
mocks.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.real import parts
from tests.proofs.real.bare import MARKS, ROLES, Stack, standing

pytestmark = MARKS


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with standing(tmp_path_factory.mktemp("bare")) as made:
        yield made


def test_one_up_counts_the_gpus_of_hosts_that_were_bare(stack: Stack) -> None:
    done = stack.project.command("up")
    assert done.returncode == 0, done.stdout
    assert "up: 16 of 16 GPUs simulated" in done.stdout
    assert stack.gpus() == dict.fromkeys(ROLES, "8")


def test_the_control_plane_is_static_pods_of_the_real_kubelet(stack: Stack) -> None:
    wanted = stack.tagged(parts.KUBELET)
    assert {name: stack.static_pods()[name] for name in wanted} == wanted


def test_the_second_up_changes_nothing(stack: Stack) -> None:
    done = stack.project.command("up")
    assert "16 of 16 GPUs simulated, 0 resources changed" in done.stdout, done.stdout


def test_going_down_leaves_the_hosts_as_before(stack: Stack) -> None:
    stack.down()
