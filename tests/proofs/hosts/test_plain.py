"""Hosts without namespaces run the same scripts, which write only below a scratch root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpu_cluster.hosts.observed.probe import probe
from tests.proofs.hosts.declared import prepare, runtime
from tests.proofs.hosts.machine import Running, differences, start


def test_both_phases_apply_once_and_are_taken_back(plain_host: Running) -> None:
    before = plain_host.tree()
    for script in (prepare(), runtime()):
        first = plain_host.apply(script)
        assert (first.status, first.errors) == (0, "")
        assert first.changed > 0
        applied = plain_host.tree(times=True)
        assert plain_host.apply(script).output == "changed=0\n"
        assert differences(applied, plain_host.tree(times=True)) == {}
    assert "runtimes.nvidia" in plain_host.read("/etc/containerd/conf.d/99-nvidia.toml")
    assert "#gpu-cluster# /swap.img" in plain_host.read("/etc/fstab")
    for script in (runtime(), prepare()):
        assert plain_host.undo(script).status == 0
        assert plain_host.undo(script).output == "changed=0\n"
    assert differences(before, plain_host.tree()) == {}


def test_the_machine_is_not_touched(plain_host: Running) -> None:
    machine = Path("/")
    plain_host.apply(prepare())
    for path in ("etc/sysctl.d/zz-gpu-cluster.conf", "etc/modules-load.d/gpu-cluster.conf"):
        assert (plain_host.root / path).exists()
        assert not (machine / path).exists()
    assert not (machine / "var/lib/gpu-cluster").exists()


def test_standard_input_output_and_status_pass_through(plain_host: Running) -> None:
    done = plain_host.run("cat; echo problem >&2; exit 7", "given\n")
    assert (done.status, done.output, done.errors) == (7, "given\n", "problem\n")
    big = plain_host.run("head -c 3000000 /dev/zero | tr '\\0' x")
    assert len(big.output) == 3_000_000
    assert "simulated" in plain_host.run("containerd --version").output


def test_a_host_has_its_own_engine_and_not_the_machines(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("docker", "dockerd"):
        (tmp_path / name).write_text("#!/bin/sh\necho Docker version 28.2.2, build e6534b4\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    host = start(cluster, "gpu-1", mode="plain")[0]
    facts = host.run("sh", probe()).output.splitlines()
    assert "containerd=1.6.20" in facts
    assert not [fact for fact in facts if fact.startswith(("docker=", "crio="))]
