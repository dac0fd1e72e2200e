"""kubeadm's own preflight takes hosts of clusters with IPv6 as the scripts leave them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.hosts.kubeadm.configuration import init_configuration, join_configuration
from gpu_cluster.settings.hosts.kubernetes_packages import Join
from gpu_cluster.settings.hosts.runtime import RuntimeSettings
from lab.real import build
from lab.real.parts import KUBELET
from tests.desired_host import desired_host
from tests.proofs.hosts.initialized import declared, parameters

pytestmark = [pytest.mark.full, pytest.mark.skipif(os.geteuid() != 0, reason="not root")]

IGNORED = (
    *("CRI", "ContainerRuntimeVersion", "ImagePull", "SystemVerification", "Swap", "Mem", "NumCPU"),
    *("Service-Kubelet", "KubeletVersion", "Hostname", "FileExisting-crictl"),
    *("FileExisting-conntrack", "FileExisting-socat", "FileExisting-ethtool", "FileExisting-tc"),
)
"""Checks of what this machine doesn't have: an engine, a kubelet, programs."""
V4, V6 = "198.18.7.1", "2001:db8:7::1"
ALONE = {"podSubnet": "fd00:10::/56", "serviceSubnet": "fd00:20::/112", "endpoint": f"[{V6}]:6443"}
DUAL = {"podSubnet": "10.1.0.0/16,fd00:10::/56", "serviceSubnet": "10.2.0.0/16,fd00:20::/112"}
FAMILIES: Mapping[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "IPv6 alone": (ALONE, (V6,)),
    "IPv6 alone, address declared": ({**ALONE, "advertiseAddress": V6}, (V6,)),
    "both": ({**DUAL, "endpoint": f"{V4}:6443"}, (V4, V6)),
    "IPv4 alone": ({"endpoint": f"{V4}:6443"}, (V4,)),
}
"""For each kind of network the declared settings and the host's addresses."""
NAMESPACE = """
ip link set lo up; ip link add node0 type veth peer name node1
for address in $ADDRESSES; do ip addr add "$address" dev node0 nodad; done
ip link set node0 up; ip link set node1 up
for address in $ADDRESSES; do
    case $address in
        *:*) ip -6 route add default via "${address%%::*}::fe" dev node0 ;;
        *) ip route add default via "${address%.*}.254" dev node0 ;;
    esac
done
for parameter in $PARAMETERS; do
    path=$(echo "${parameter%%=*}" | tr . /)
    case $path in net/ipv*) echo "${parameter#*=}" >"/proc/sys/$path" ;; esac
done
exec timeout 60 "$@"
"""


def preflight(kind: str, text: str, folder: Path, given: Mapping[str, str]) -> str:
    """Run the real preflight of `init` or `join` with kernel parameters; return its text."""
    _, addresses = FAMILIES[kind.partition(": ")[2]]
    file = folder / "kubeadm.yaml"
    file.write_text(text)
    action = kind.partition(":")[0]
    words = [action, "phase", "preflight", "--config", str(file)]
    words += ["--ignore-preflight-errors", ",".join(IGNORED)]
    done = subprocess.run(
        [
            "unshare",
            "--net",
            "sh",
            "-c",
            NAMESPACE,
            "sh",
            str(build.build_node()["kubeadm"]),
            *words,
        ],
        env={
            **os.environ,
            "ADDRESSES": " ".join(f"{each}/{64 if ':' in each else 24}" for each in addresses),
            "PARAMETERS": " ".join(f"{key}={value}" for key, value in given.items()),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return f"{done.stdout}{done.stderr}\nstatus {done.returncode}"


def configured(kind: str) -> tuple[str, dict[str, str]]:
    """Return the program's configuration for kubeadm and its kernel parameters for the host."""
    action, _, family = kind.partition(": ")
    settings: dict[str, Any] = dict(FAMILIES[family][0])
    role = "control-plane" if action == "init" else "gpu-worker"
    cluster = declared(role, version=KUBELET, **settings)
    host = desired_host(cluster, 0)
    init = cluster.kubernetes_packages.init
    assert init is not None
    if action == "init":
        return init_configuration(KUBELET, init, host, RuntimeSettings()), parameters(
            role, **settings
        )
    join = Join(endpoint=init.endpoint, ca_cert_hashes=(f"sha256:{'0' * 64}",))
    engine = RuntimeSettings().engine
    text = join_configuration(KUBELET, join, host, "abcdef.0123456789abcdef", engine)
    text = text.replace('"discovery": {', '"timeouts": {"discovery": "2s"},\n "discovery": {', 1)
    return text, parameters(role, **settings)


@pytest.mark.promise(
    "Hosts of clusters with IPv6, alone or beside IPv4, pass kubeadm's own preflight."
)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("action", ["init", "join"])
def test_the_real_preflight_takes_hosts_as_the_scripts_leave_them(
    tmp_path: Path, action: str, family: str
) -> None:
    kind = f"{action}: {family}"
    text, given = configured(kind)
    text = text.replace("@TOKEN@", "abcdef.0123456789abcdef")
    given = given or {"net.ipv4.ip_forward": "1"}
    before = preflight(kind, text, tmp_path, {})
    assert "[ERROR FileContent--proc-sys-net-ip" in before, before
    ready = preflight(kind, text, tmp_path, given)
    assert "[ERROR" not in ready, ready
    if action == "init":
        assert ready.endswith("status 0"), ready
