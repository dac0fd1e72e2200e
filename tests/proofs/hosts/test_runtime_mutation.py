"""Mutation tests of phase `runtime`: a check must fail if a function or file is emptied."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from gpu_cluster.hosts.steps import every
from gpu_cluster.settings.hosts.runtime import Engine, RuntimeSettings
from tests.proofs.hosts import cri
from tests.proofs.hosts.containerd import DROPIN, GLOB, ROOT
from tests.proofs.hosts.declared import runtime, step
from tests.proofs.hosts.engines import install
from tests.proofs.hosts.machine import Running, differences
from tests.proofs.hosts.mutants import emptied

pytestmark = pytest.mark.full

SOCKET = "run/containerd/containerd.sock"
REFUSED = (
    f'version = 2\nimports = ["{GLOB}"]\n',
    'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n  sandbox_image = "x/y:1"\n',
)


HIDDEN = "give the file a name that sorts before 99-nvidia.toml"


def brings_nvidia(host: Running, script: str) -> bool:
    """Check that the script adds the nvidia runtime, and that undo restores all files."""
    before = host.tree()
    process = host.read("/run/simulated-systemd/containerd.pid")
    try:
        if host.apply(script).status != 0:
            return False
        running = cri.runtime_config(host.root / SOCKET)["containerd"]
        started = host.read("/run/simulated-systemd/containerd.pid")
        again = host.apply(script).output
        once = process != started == host.read("/run/simulated-systemd/containerd.pid")
        options = running["runtimes"]["nvidia"]["options"]
        kept = host.exists(f"/var/lib/gpu-cluster/runtime/kept{ROOT}")
        undone = host.undo(script)
        return (
            running["defaultRuntimeName"] == "nvidia"
            and options["SystemdCgroup"] is True
            and once
            and kept
            and again == "changed=0\n"
            and undone.status == 0
            and differences(before, host.tree()) == {}
            and "nvidia" not in cri.runtime_config(host.root / SOCKET)["containerd"]["runtimes"]
        )
    except (KeyError, OSError):
        return False
    finally:
        clean(host)


def refuses_hidden_settings(host: Running, script: str) -> bool:
    """Check that the script fails without changes if a later drop-in would hide its own drop-in."""
    root = host.read(ROOT)
    host.write(ROOT, REFUSED[0])
    host.write("/etc/containerd/conf.d/99-site.toml", REFUSED[1])
    try:
        refused = host.apply(script)
        return refused.status == 1 and HIDDEN in refused.errors and not host.exists(DROPIN)
    finally:
        host.run("rm -r /etc/containerd/conf.d")
        host.write(ROOT, root)
        clean(host)


def comes_back(host: Running, script: str) -> bool:
    """Check that containerd runs with its old files if it doesn't start with the new files."""
    unit = "/etc/systemd/system/containerd.service"
    guard = f"#!/bin/sh\n[ ! -e {DROPIN} ] || exit 1\nexec /usr/bin/containerd\n"
    host.write("/usr/local/bin/guarded", guard)
    host.write(unit, "[Service]\nExecStart=/usr/local/bin/guarded\n[Install]\n")
    host.run("chmod 755 /usr/local/bin/guarded; systemctl restart containerd")
    try:
        failed = host.apply(script)
        active = host.run("systemctl is-active --quiet containerd").status == 0
        return failed.status == 1 and active and not host.exists(DROPIN)
    finally:
        host.run(f"rm {unit} /usr/local/bin/guarded")
        clean(host)


def clean(host: Running) -> None:
    """Restore the host's containerd files after a mutated script has run."""
    host.undo(runtime())
    host.run(
        "rm -rf /var/lib/gpu-cluster /etc/containerd/conf.d; cp /root/config.toml /etc/containerd;"
        "systemctl enable containerd; systemctl restart containerd"
    )


CHECKS: dict[str, Callable[[Running, str], bool]] = {
    **dict.fromkeys(
        (
            *("make_root", "make_texts", "make_wanted", "dump", "put_in_place", "service_on"),
            *("restart_unit", "mark_pending", "place", "keep", "restore"),
            *("needed_action", "service_settled", "remember_service", "make_folder", "differs"),
            *("find_engine", "find_socket", "top_level", "trial", "choose_source"),
        ),
        brings_nvidia,
    ),
    "check_texts": refuses_hidden_settings,
    "check_wanted": refuses_hidden_settings,
    "refuse_problems": refuses_hidden_settings,
    "put_back": comes_back,
}


@pytest.fixture
def ready(host: Running) -> Running:
    host.run("cp /etc/containerd/config.toml /root/config.toml")
    return host


@pytest.mark.parametrize("check", [brings_nvidia, refuses_hidden_settings, comes_back])
def test_an_emptied_function_is_seen(ready: Running, check: Callable[[Running, str], bool]) -> None:
    assert check(ready, runtime())
    for name, held in CHECKS.items():
        if held is check:
            assert not check(ready, emptied(runtime(), name)), name


def functions(name: str) -> list[str]:
    return re.findall(r"^(\w+)\(\) \{", step(name).text, re.M)


@pytest.mark.parametrize("engine", [Engine.CRI_O])
def test_an_emptied_file_of_cri_o_is_seen(crio: Running, engine: Engine) -> None:
    script = runtime(RuntimeSettings(engine=engine))

    def brings(text: str) -> bool:
        before = crio.tree()
        try:
            crio.apply(text)
            return 'default_runtime = "nvidia"' in crio.run("crio config").output
        finally:
            crio.undo(script)
            crio.run("rm -rf /var/lib/gpu-cluster /etc/crio/crio.conf.d/99-nvidia.toml")
            assert differences(before, crio.tree()).keys() <= {"root"}

    assert brings(script)
    for name in ("merged", "make_wanted", "put_in_place", "make_folder"):
        assert not brings(emptied(script, name)), name
    for name in every()[{"cri-o": "crio"}.get(engine, engine)].files[1:]:
        assert not brings(emptied(script, *functions(name))), name


@pytest.mark.parametrize("name", ["k3s", "rke2"])
def test_an_emptied_file_of_k3s_is_seen(host: Running, name: str) -> None:
    unit = {"k3s": "k3s", "rke2": "rke2-agent"}[name]
    install(host, name, "k3s", unit)
    script = runtime(RuntimeSettings(engine=Engine(name)))
    generated = f"/var/lib/rancher/{name}/agent/etc/containerd/config.toml"

    def brings(text: str) -> bool:
        try:
            host.apply(text)
            return "default_runtime_name" in host.read(generated)
        finally:
            host.undo(script)
            host.run(f"rm -rf /var/lib/gpu-cluster /etc/rancher; systemctl restart {unit}")

    assert brings(script)
    for emptied_name in ("make_wanted", "put_in_place", "service_on"):
        assert not brings(emptied(script, emptied_name)), emptied_name
    assert not brings(emptied(script, *functions("k3s")))
