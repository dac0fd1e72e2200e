"""Simulated hosts start as declared, report their status correctly, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import asyncssh
import pytest

from gpu_cluster_lab.simulator import __main__ as command_line
from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.hosts import processes
from gpu_cluster_lab.simulator.hosts.model import hosts_dir
from tests.ci.machine import link_programs
from tests.proofs.hosts.machine import Declared, Running, differences, free_port, start


def traces(cluster: str) -> list[str]:
    """Return what is left of a cluster's hosts on this machine: processes, mounts and folders."""
    folder = hosts_dir(cluster)
    left = [str(folder)] if folder.exists() else []
    left += [
        line
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
        if str(folder) in line
    ]
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            texts = (entry / "environ").read_bytes() + (entry / "mountinfo").read_bytes()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in texts:
            left.append(f"process {entry.name}: {command!r}")
    return left


def test_second_up_leaves_running_hosts_alone(cluster: str, namespaces: None) -> None:
    path, public = simulated.client_key(cluster)
    declared = [Declared("gpu-1", free_port()), Declared("gpu-2", free_port())]
    first = simulated.up(cluster, declared, public)
    second = simulated.up(cluster, declared, public)
    assert [host.running for host in second] == [True, True]
    assert [host.pid for host in first] == [host.pid for host in second]
    assert path.stat().st_mode & 0o777 == 0o600


def test_down_of_the_command_line_ends_the_hosts(cluster: str, namespaces: None) -> None:
    (host,) = start(cluster, "gpu-1", mode="namespaces")
    assert command_line.main(["down", "--name", cluster]) == 0
    assert traces(cluster) == []
    socket.create_server(("127.0.0.1", host.declared.port)).close()


@pytest.mark.parametrize("mode", ["namespaces", "plain"])
def test_down_leaves_no_process_mount_namespace_or_file(
    cluster: str, namespaces: None, mode: str
) -> None:
    first, second = start(cluster, "gpu-1", "gpu-2", mode=mode)
    first.run("sleep 300 >/dev/null 2>&1 </dev/null & echo started")
    second.run("true")
    assert traces(cluster)
    simulated.down(cluster)
    assert traces(cluster) == []
    assert simulated.root_of(cluster, "gpu-1") is None
    assert simulated.status(cluster) == []
    simulated.down(cluster)


@pytest.mark.parametrize("stage", ["ssh/host_key", "spec.json", "start.lock", "pid", "log"])
def test_down_cleans_up_after_a_killed_up(cluster: str, namespaces: None, stage: str) -> None:
    ports = [free_port(), free_port()]
    program = (
        "from gpu_cluster_lab.simulator import hosts;"
        "from tests.proofs.hosts.machine import Declared;"
        f"hosts.up({cluster!r}, [Declared('gpu-1', {ports[0]}), Declared('gpu-2', {ports[1]})],"
        f" hosts.client_key({cluster!r})[1])"
    )
    started = subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parents[3])
    mark = hosts_dir(cluster) / "gpu-1" / stage
    deadline = time.monotonic() + 60
    while not mark.exists() and started.poll() is None and time.monotonic() < deadline:
        pass
    started.send_signal(signal.SIGKILL)
    started.wait(timeout=10)
    assert mark.exists()
    simulated.down(cluster)
    assert traces(cluster) == []


def test_a_host_of_a_run_killed_before_it_wrote_the_process_down_ends(
    cluster: str, namespaces: None
) -> None:
    program = (
        "import os, signal; from gpu_cluster_lab.simulator import hosts;"
        "from gpu_cluster_lab.simulator.hosts import processes;"
        "from tests.proofs.hosts.machine import Declared;"
        "processes.started = lambda pid: os.kill(os.getpid(), signal.SIGKILL);"
        f"hosts.up({cluster!r}, [Declared('gpu-1', {free_port()})],"
        f" hosts.client_key({cluster!r})[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[3], check=False
    )
    assert done.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 10
    while processes.find(hosts_dir(cluster) / "gpu-1"):
        assert time.monotonic() < deadline, "it began without its process written down"
    simulated.down(cluster)
    assert traces(cluster) == []


def test_a_host_that_is_no_longer_declared_goes_away(cluster: str, namespaces: None) -> None:
    _, public = simulated.client_key(cluster)
    kept, dropped = Declared("gpu-1", free_port()), Declared("gpu-2", free_port())
    simulated.up(cluster, [kept, dropped], public)
    assert [host.name for host in simulated.up(cluster, [kept], public)] == ["gpu-1"]
    assert processes.find(hosts_dir(cluster) / "gpu-2") == []


def test_a_changed_declaration_restarts_the_host_and_keeps_its_files(
    cluster: str, namespaces: None
) -> None:
    (before,) = start(cluster, "gpu-1", mode="namespaces")
    before.run("echo kept >/etc/kept; echo gone >/run/gone")
    boot = before.run("cat /proc/sys/kernel/random/boot_id").output
    (after,) = start(cluster, "gpu-1", mode="namespaces")
    assert after.read("/etc/kept") == "kept\n"
    assert not after.exists("/run/gone")
    assert after.run("cat /proc/sys/kernel/random/boot_id").output != boot


def test_hosts_have_file_systems_of_their_own(cluster: str, namespaces: None) -> None:
    first, second = start(cluster, "gpu-1", "gpu-2", mode="namespaces")
    first.run("echo first >/etc/who; mkdir /srv/only-first")
    assert first.read("/etc/who") == "first\n"
    assert not second.exists("/etc/who")
    assert not Path("/srv/only-first").exists()
    assert [host.run("hostname").output for host in (first, second)] == ["gpu-1\n", "gpu-2\n"]
    assert "(simulated)" not in second.run("ps ax").output
    assert len(second.run("ps ax -o pid=").output.split()) < 12


def test_another_host_key_is_refused(host: Running) -> None:
    other = simulated.host_public_key("gpu-2")
    with pytest.raises(asyncssh.HostKeyNotVerifiable):
        host.run("true", host_key=other)
    assert host.run("true").status == 0


def test_another_client_key_is_refused(host: Running) -> None:
    stranger = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    with pytest.raises(asyncssh.PermissionDenied):
        Running(host.cluster, host.declared, stranger).run("true")


def test_host_keys_are_the_same_on_every_machine() -> None:
    assert simulated.host_public_key("gpu-1") == (
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEfxFSAF45h/u4FWcTpIO9dleHVOhDTjHvn4WRhQJDYQ"
    )
    assert simulated.host_public_key("gpu-1") != simulated.host_public_key("gpu-2")


@pytest.mark.parametrize("address", ["192.0.2.1", "::", "gpu-1.example.org", ""])
def test_an_address_beyond_loopback_is_refused(cluster: str, address: str) -> None:
    with pytest.raises(simulated.HostError, match="not a loopback address"):
        simulated.up(cluster, [Declared("gpu-1", 1, address=address)], "")


@pytest.mark.parametrize("name", ["../up", "a b", "", "-x", "a:b", "a,b", "x" * 64])
def test_a_name_that_is_no_host_name_is_refused(cluster: str, name: str) -> None:
    with pytest.raises(simulated.HostError, match="host name"):
        simulated.up(cluster, [Declared(name, 1)], "")


def test_a_taken_port_is_named(cluster: str, host: Running) -> None:
    port = host.declared.port
    with pytest.raises(simulated.HostError, match=f"127.0.0.1:{port} can't be bound"):
        simulated.up(
            cluster, [host.declared, Declared("gpu-2", port)], simulated.client_key(cluster)[1]
        )
    assert host.run("true").status == 0


def test_stand_ins_say_what_they_are(host: Running) -> None:
    for command in ("swapoff", "swapon", "modprobe", "sysctl", "systemctl"):
        assert "simulated by gpu-cluster" in host.run(f"{command} --version").output, command
    assert "simulated" in host.run("nvidia-container-runtime --version").output
    assert "simulated" in host.read("/run/gpu-cluster-simulated")
    assert "simulated" in host.run("cat /proc/driver/nvidia/version").output
    assert "simulated" not in host.run("nvidia-ctk --version; containerd --version").output


def test_the_machines_kernel_is_out_of_reach(host: Running) -> None:
    forward = Path("/proc/sys/net/ipv4/ip_forward")
    before = (forward.read_text(), Path("/proc/swaps").read_text(), os.uname().nodename)
    host.run("sysctl -w net.ipv4.ip_forward=1; swapoff -a; modprobe dummy; hostname other")
    assert host.run("sysctl -n net.ipv4.ip_forward").output == "1\n"
    assert host.run("echo 7 >/proc/sys/net/ipv4/ip_forward").status != 0
    assert (
        host.run("[ ! -e /proc/sysrq-trigger ] || [ /proc/sysrq-trigger -ef /dev/null ]").status
        == 0
    )
    after = (forward.read_text(), Path("/proc/swaps").read_text(), os.uname().nodename)
    assert before == after
    assert host.run("ls /dev").output.split() == [
        "fd", "full", "null", "ptmx", "pts", "random", "shm",
        "stderr", "stdin", "stdout", "tty", "urandom", "zero",
    ]  # fmt: skip


def test_a_user_who_is_not_root_may_become_root(cluster: str, namespaces: None) -> None:
    (host,) = start(cluster, "gpu-1", mode="namespaces", user="ubuntu")
    assert host.run("id -un; sudo -n id -un").output == "ubuntu\nroot\n"


def test_the_real_containerd_runs(host: Running) -> None:
    assert host.run("systemctl is-active containerd").output == "active\n"
    assert "io.containerd.grpc.v1" in host.run("ctr plugins ls").output
    assert host.run("systemctl stop containerd; systemctl is-active containerd").status == 3


def test_a_login_changes_no_file(host: Running) -> None:
    before = host.tree(times=True)
    assert host.run("true").status == 0
    assert differences(before, host.tree(times=True)) == {}


def test_a_host_boots_where_programs_are_links_in_a_folder_of_their_own(
    cluster: str, namespaces: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link_programs(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (host,) = start(cluster, "gpu-1", mode="namespaces")
    assert host.run("uname -n").output == "gpu-1\n"
