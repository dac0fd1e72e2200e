"""Mutation tests of the toolkit and K3s steps: a check must fail if a function is emptied."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

import pytest

from gpu_cluster.settings.hosts.repository import Repository
from gpu_cluster.settings.hosts.runtime import (
    DefaultRuntime,
    Engine,
    RuntimeSettings,
    Toolkit,
    ToolkitSource,
)
from tests.proofs.hosts.declared import runtime, step
from tests.proofs.hosts.engines import install
from tests.proofs.hosts.machine import Running
from tests.proofs.hosts.mutants import emptied_of
from tests.proofs.hosts.toolkit import KEPT, SOURCES, bare, serving

pytestmark = pytest.mark.full
TOOLKIT = "/etc/nvidia-container-runtime/config.toml"
CLOSED = "accept-nvidia-visible-devices-envvar-when-unprivileged = false"


def installs(host: Running, url: str, key: str, mutant: Callable[[str], str]) -> bool:
    """Check that the script installs the declared toolkit version, and that undo removes it."""
    source = Repository(url=f"{url}/{{distribution}}/{{architecture}}", key=key)
    toolkit = Toolkit(
        source=ToolkitSource.PACKAGE, apt=source, dnf=source, version="1.20.0", remove_packages=True
    )
    text = mutant(runtime(RuntimeSettings(toolkit=toolkit), inline=True))
    other = "/etc/yum.repos.d/gpu-cluster-nvidia-container-toolkit.repo"
    try:
        if host.apply(text).status != 0:
            return False
        there = host.run("nvidia-ctk --version").status == 0
        foreign = host.exists(other)
        closed = host.exists(TOOLKIT) and CLOSED in host.read(TOOLKIT)
        undone = host.undo(text).status
        return (there, closed, foreign, undone) == (True, True, False, 0) and not (
            host.exists(SOURCES["apt"]) or host.run("command -v nvidia-ctk").status == 0
        )
    finally:
        host.undo(runtime())
        host.run(
            f"apt-get -y -q purge 'nvidia-container*' 'libnvidia-container*';"
            f"rm -rf {SOURCES['apt']} {other} /var/lib/gpu-cluster"
        )


def refuses_old(host: Running, mutant: Callable[[str], str]) -> bool:
    """Check that the script reports a toolkit below the minimum secure version."""
    says = "NVIDIA Container Toolkit CLI version 1.19.0"
    host.write("/usr/local/bin/nvidia-ctk", f"#!/bin/sh\necho '{says}'\n")
    host.run("chmod 755 /usr/local/bin/nvidia-ctk")
    try:
        refused = host.apply(mutant(runtime(inline=True)))
        return refused.status == 1 and "nvidia-ctk 1.19.0" in refused.errors
    finally:
        host.run("rm /usr/local/bin/nvidia-ctk")
        host.undo(runtime())


INSTALLS = (
    *("check_toolkit", "toolkit_on", "toolkit_off", "toolkit_repository", "toolkit_rights"),
    "name_host",
)


def test_an_emptied_function_of_the_toolkit_is_seen(cluster: str, namespaces: None) -> None:
    host = bare(cluster, "debian")
    with serving("debian", at="debian12/amd64") as (url, key):
        assert installs(host, url, key, lambda text: text)
        for name in INSTALLS:
            assert not installs(host, url, key, functools.partial(emptied_of, name)), name
    host.run(f"cp {KEPT} /usr/bin/nvidia-ctk")
    assert refuses_old(host, lambda text: text)
    assert not refuses_old(host, functools.partial(emptied_of, "require_toolkit"))
    assert {*INSTALLS, "require_toolkit"} == set(
        re.findall(r"^(\w+)\(\) \{", step("toolkit").text, re.M)
    )


BY_CLASS = runtime(RuntimeSettings(engine=Engine.K3S, default_runtime=DefaultRuntime.RUNC))
DEFAULT = runtime(RuntimeSettings(engine=Engine.K3S))
TEMPLATE = "/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.tmpl"


def refuses_template(host: Running, mutant: Callable[[str], str]) -> bool:
    """Check that the script reports a containerd template that hides the nvidia runtimes."""
    host.write(TEMPLATE, "version = 3\n")
    try:
        refused = host.apply(mutant(DEFAULT))
        return refused.status == 1 and "hides the runtimes" in refused.errors
    finally:
        host.run(f"rm {TEMPLATE}")


def finds_a_later_toolkit(host: Running, mutant: Callable[[str], str]) -> bool:
    """Check that K3s is restarted if the toolkit was installed after K3s had started."""
    host.run(
        "mv /usr/bin/nvidia-container-runtime /usr/bin/hidden; systemctl restart k3s;"
        "mv /usr/bin/hidden /usr/bin/nvidia-container-runtime"
    )
    return "+ k3s restarted" in host.apply(mutant(BY_CLASS)).output.splitlines()


GENERATED = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"


def brings_default(host: Running, mutant: Callable[[str], str]) -> bool:
    """Check that K3s has the declared default runtime after its restart."""
    done = host.apply(mutant(DEFAULT))
    return done.status == 0 and "default_runtime_name" in host.read(GENERATED)


def restarts_for_a_lost_file(host: Running, mutant: Callable[[str], str]) -> bool:
    """Check that K3s is restarted after somebody has deleted the file with its default runtime.

    The running daemon still has that runtime, so only the file shows the difference.
    """
    assert host.apply(DEFAULT).status == 0
    host.run("rm /etc/rancher/k3s/config.yaml.d/99-nvidia.yaml")
    return "+ k3s restarted" in host.apply(mutant(DEFAULT)).output.splitlines()


def judges(host: Running, mutant: Callable[[str], str]) -> bool:
    """Check that the script fails if K3s ignores the file with the default runtime."""
    host.run("sed -i 's/^default=.*/default=/' /usr/local/bin/k3s")
    try:
        failed = host.apply(mutant(DEFAULT))
        return failed.status == 1 and "not nvidia as wanted" in failed.errors
    finally:
        install(host, "k3s", "k3s", "k3s")


def undoes_without_restart(host: Running, mutant: Callable[[str], str]) -> bool:
    """Check that undo does not restart K3s if the script had written no file."""
    text = mutant(BY_CLASS)
    if host.apply(text).status != 0:
        return False
    process = host.read("/run/simulated-systemd/k3s.pid")
    undone = host.undo(text)
    return undone.status == 0 and process == host.read("/run/simulated-systemd/k3s.pid")


K3S: dict[str, Callable[[Running, Callable[[str], str]], bool]] = {
    "require_engine": refuses_template,
    "check_wanted": finds_a_later_toolkit,
    "judge_running": finds_a_later_toolkit,
    "find_unit": brings_default,
    "find_engine": refuses_template,
    "make_wanted": brings_default,
    "needed_action": restarts_for_a_lost_file,
    "judge_applied": judges,
    "engine_view": undoes_without_restart,
}


def test_an_emptied_function_of_k3s_is_seen(host: Running) -> None:
    install(host, "k3s", "k3s", "k3s")

    def clean() -> None:
        host.undo(DEFAULT)
        host.run("rm -rf /var/lib/gpu-cluster /etc/rancher; systemctl restart k3s")

    for name, check in K3S.items():
        assert check(host, lambda text: text), name
        clean()
        assert not check(host, functools.partial(emptied_of, name)), name
        clean()
    # The functions of engine_plain.sh, on one line each, are empty already.
    functions = set(re.findall(r"^(\w+)\(\) \{$", step("k3s").text, re.M))
    # The functions `setting` and `variable` are tested by test_engines.py.
    assert functions - {"smi_in_container", "setting", "variable"} == K3S.keys()
