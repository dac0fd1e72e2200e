"""Installing the NVIDIA Container Toolkit with real apt and dnf from a local signed repository."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

import toolchain
from components.hosts.steps.toolkit import PACKAGES
from components.settings.hosts.repository import Repository
from components.settings.hosts.runtime import RuntimeSettings, Toolkit, ToolkitSource
from lab.simulator.hosts import package_graph, rootfs
from lab.simulator.hosts.packages import Format, Package, Signature, build, served
from tests.hosts import conftest, software
from tests.hosts.declared import runtime
from tests.hosts.machine import Running, differences

FORMATS: dict[str, Format] = {"debian": "apt", "rocky": "dnf"}
VERSION = "1.20.0"
KEPT = "/usr/local/lib/nvidia-ctk"
RECORDS = ("var/lib/apt", "var/lib/dnf", "var/lib/dpkg", "var/lib/rpm", "root", "upper")
"""Paths of the package managers' own records, which change with each transaction."""
SOURCES = {
    "debian": "/etc/apt/sources.list.d/gpu-cluster-nvidia-container-toolkit.sources",
    "rocky": "/etc/yum.repos.d/gpu-cluster-nvidia-container-toolkit.repo",
}


def packages() -> list[Package]:
    """Return the packages of NVIDIA's repository with a real nvidia-ctk and a fake runtime.

    The package's nvidia-ctk is a wrapper that runs the host's real one from another path.
    """
    shim = rootfs.FIXTURES / "usr/bin/nvidia-container-runtime"
    ctk = f'#!/bin/sh\nexec {KEPT} "$@"\n'
    held = {"/usr/bin/nvidia-ctk": ctk, "/usr/bin/nvidia-container-runtime": shim}
    return [
        dataclasses.replace(package, files=held) if package.name.endswith("-base") else package
        for package in package_graph.load("container_toolkit").packages("toolkit")
    ]


def wanted(system: str, url: str, key: str, **more: Any) -> str:
    """Return the script of phase `runtime` with the toolkit from the given repository."""
    source = Repository(url=url, key=key)
    toolkit = Toolkit(source=ToolkitSource.PACKAGE, **{FORMATS[system]: source}, **more)
    return runtime(RuntimeSettings(toolkit=toolkit))


@contextlib.contextmanager
def serving(system: str, signature: Signature = "good", at: str = "") -> Iterator[tuple[str, str]]:
    """Serve the repository over HTTP on loopback, optionally below the path `at`.

    Yield the repository's URL and its signing key.
    """
    built = build(FORMATS[system], packages(), signature)
    if not at:
        with served(built.folder) as url:
            yield url, built.key
        return
    home = toolchain.cache_dir() / "roots" / "repositories" / f"at-{at.replace('/', '-')}"
    shutil.copytree(built.folder, home / at, dirs_exist_ok=True)
    try:
        with served(home) as url:
            yield url, built.key
    finally:
        shutil.rmtree(home)


def bare(cluster: str, system: str) -> Running:
    """Start a host with containerd and without the toolkit."""
    host = conftest.start(cluster, "gpu-1", mode="namespaces", system=system)[0]
    host.run(f"mv /usr/bin/nvidia-ctk {KEPT}; rm /usr/bin/nvidia-container-runtime")
    return host


def lasting(host: Running) -> dict[str, str]:
    return {path: text for path, text in host.tree().items() if not path.startswith(RECORDS)}


@pytest.mark.full
@pytest.mark.parametrize("system", FORMATS)
def test_toolkit_comes_from_a_signed_repository(
    cluster: str, namespaces: None, system: str
) -> None:
    host = bare(cluster, system)
    before = lasting(host)
    with serving(system) as (url, key):
        script = wanted(system, url, key, version=VERSION, remove_packages=True)
        first = host.apply(script)
        assert (first.status, first.errors) == (0, "")
        assert host.run("nvidia-ctk --version").output.splitlines()[0].endswith(VERSION)
        listed = host.run("dpkg -l 'nvidia-*'" if system == "debian" else "rpm -qa 'nvidia-*'")
        assert "nvidia-container-toolkit-base" in listed.output
        assert url in host.read(SOURCES[system])
        assert "containerd.runtimes.nvidia]" in host.run("containerd config dump").output
        assert host.apply(script).output == "changed=0\n"
    assert host.undo(script).status == 0
    assert differences(before, lasting(host)) == {}
    assert host.run("command -v nvidia-ctk").status != 0


@pytest.mark.full
@pytest.mark.parametrize("system", FORMATS)
def test_an_older_toolkit_comes_whole_where_a_newer_one_is_published(
    cluster: str, namespaces: None, system: str
) -> None:
    """libnvidia-container-tools requires only a minimum version, so apt prefers the newest."""
    host = bare(cluster, system)
    with serving(system) as (url, key):
        script = wanted(system, url, key, version="1.19.1")
        assert host.apply(script).status == 0
        assert host.apply(script).output == "changed=0\n"
    packages = software.installed(host, system)
    assert [packages[name] for name in PACKAGES] == ["1.19.1-1"] * len(PACKAGES)


@pytest.mark.refusal(by="real part")
@pytest.mark.full
@pytest.mark.parametrize("signature", ["none", "other", "broken"])
@pytest.mark.parametrize("system", FORMATS)
def test_a_repository_that_is_not_signed_by_the_key_is_refused(
    cluster: str, namespaces: None, system: str, signature: Signature
) -> None:
    host = bare(cluster, system)
    containerd = host.read("/etc/containerd/config.toml")
    with serving(system, signature) as (url, key):
        refused = host.apply(wanted(system, url, key))
    assert refused.status == 1
    assert "is refused" in refused.errors
    assert host.run("command -v nvidia-ctk").status != 0
    assert not host.exists(SOURCES[system])
    assert host.read("/etc/containerd/config.toml") == containerd


@pytest.mark.full
def test_packages_stay_unless_they_are_to_go(cluster: str, namespaces: None) -> None:
    host = bare(cluster, "debian")
    with serving("debian") as (url, key):
        script = wanted("debian", url, key)
        assert host.apply(script).status == 0
        assert host.undo(script).status == 0
    assert host.run("nvidia-ctk --version").status == 0
    assert not host.exists(SOURCES["debian"])


@pytest.mark.full
def test_an_entry_that_the_host_has_brings_the_runtime_too(cluster: str, namespaces: None) -> None:
    host = bare(cluster, "debian")
    with serving("debian") as (url, key):
        script = wanted("debian", url, key, remove_packages=True)
        assert host.apply(script).status == 0
        entry = host.read(SOURCES["debian"])
        assert host.undo(script).status == 0
        host.write("/etc/apt/theirs.asc", key)
        theirs = re.sub("Signed-By: .*", "Signed-By: /etc/apt/theirs.asc", entry)
        host.write("/etc/apt/sources.list.d/theirs.sources", theirs)
        done = host.apply(script)
        assert (done.status, done.errors) == (0, "")
        assert "the entry in /etc/apt/sources.list.d/theirs.sources is used" in done.output
        assert "containerd.runtimes.nvidia]" in host.run("containerd config dump").output
        assert host.apply(script).output == "changed=0\n"


@pytest.mark.full
def test_rocky_9_takes_the_repository_of_rhel_9(cluster: str, namespaces: None) -> None:
    host = bare(cluster, "rocky")
    with serving("rocky", at="rhel9.0/x86_64") as (url, key):
        done = host.apply(wanted("rocky", f"{url}/{{distribution}}/{{architecture}}", key))
        assert (done.status, done.errors) == (0, "")
        assert f"baseurl={url}/rhel9.0/x86_64" in host.read(SOURCES["rocky"])


@pytest.mark.full
def test_a_version_that_is_not_there_is_told(cluster: str, namespaces: None) -> None:
    host = bare(cluster, "debian")
    with serving("debian") as (url, key):
        refused = host.apply(wanted("debian", url, key, version="1.19.9"))
    assert refused.status == 1
    assert "nvidia-container-toolkit 1.19.9: found 1.20.0-1 1.19.1-1 1.12.0-1 in" in refused.errors
