"""A host makes no second cluster at an endpoint at which an API server answers.

kubectl is a fake with the words of kubectl 1.36.3, asked with these arguments against servers that
answered so.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpu_cluster.hosts.kubeadm.scripts import init_script
from tests.components.hosts.kubeadm.faked_host import NOTHING, Host
from tests.desired_host import desired_host
from tests.fixtures.clusters import cluster

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="the script requires root"),
    pytest.mark.skipif(not Path("/usr/bin/flock").exists(), reason="no flock"),
]

KUBECTL = r"""#!/bin/sh
case " $* " in
    *" --token "*) ;;
    *) echo "Please enter Username:  error: EOF" >&2; exit 1 ;;
esac
cat "$ROOT/answer"
"""
KUBEADM = r"""#!/bin/sh
printf '%s\n' "$*" >>"$ROOT/calls"
exit 1
"""
ANSWERS = (
    '{"major":"1","gitVersion":"v1.36.3"}',
    "error: You must be logged in to the server (Unauthorized)",
    'Error from server (Forbidden): forbidden: User "system:anonymous" cannot get path "/version"',
)
NO_ANSWERS = (
    "Error from server (ServiceUnavailable): the server is currently unable to handle the request",
    "The connection to the server 192.0.2.1:6443 was refused - did you specify the right host?",
    "Unable to connect to the server: EOF",
)


def initialize(root: Path, answer: str) -> tuple[str, str]:
    """Run the script of `kubeadm init`; return its errors, and how kubeadm was called."""
    programs = {"kubectl": KUBECTL, "kubeadm": KUBEADM, "systemctl": NOTHING}
    host = Host.make(root, programs)
    host.write("answer", answer)
    init = {"endpoint": "192.0.2.1:6443", "network": {"manifest": "cni.yaml"}}
    declared = cluster(kubernetesPackages={"version": "1.36.3", "init": init})
    code, _, errors = host.run(init_script(desired_host(declared, 1), inline=True))
    assert code == 1
    return errors, host.read("calls")


@pytest.mark.parametrize("answer", ANSWERS)
def test_no_second_cluster_is_made_at_an_endpoint_that_answers(tmp_path: Path, answer: str) -> None:
    errors, calls = initialize(tmp_path, answer)
    assert "a cluster that answers at 192.0.2.1:6443 already" in errors
    assert "nothing was changed on this host" in errors
    assert calls == ""


@pytest.mark.parametrize("answer", NO_ANSWERS)
def test_an_endpoint_without_an_api_server_is_free(tmp_path: Path, answer: str) -> None:
    errors, calls = initialize(tmp_path, answer)
    assert "answers at" not in errors
    assert calls.startswith("config validate")
