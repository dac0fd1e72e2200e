"""Helpers for tests of the NVIDIA Container Toolkit: signed repositories, hosts without it."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Iterator
from typing import Any

from gpu_cluster.settings.hosts.repository import Repository
from gpu_cluster.settings.hosts.runtime import RuntimeSettings, Toolkit, ToolkitSource
from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator.hosts import package_graph, rootfs
from gpu_cluster_lab.simulator.hosts.packages import Package, Signature, build, served
from tests.proofs.hosts import software
from tests.proofs.hosts.declared import runtime
from tests.proofs.hosts.machine import Running
from tests.proofs.hosts.software import FORMATS

VERSION = "1.20.0"
KEPT = "/usr/local/lib/nvidia-ctk"
RECORDS = ("var/lib/apt", "var/lib/dnf", "var/lib/dpkg", "var/lib/rpm", "root", "upper")
"""Paths of the package managers' own records, which change with each transaction."""
SOURCES = {
    "apt": "/etc/apt/sources.list.d/gpu-cluster-nvidia-container-toolkit.sources",
    "dnf": "/etc/yum.repos.d/gpu-cluster-nvidia-container-toolkit.repo",
}


def packages() -> list[Package]:
    """Return the packages of NVIDIA's toolkit repository.

    They contain a fake runtime and a wrapper that runs the real nvidia-ctk from another path of the
    host.
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
    host = software.start(cluster, system)
    take_away(host)
    return host


def take_away(host: Running) -> None:
    """Take the toolkit off the host, so that its package can bring it."""
    host.run(f"mv /usr/bin/nvidia-ctk {KEPT}; rm /usr/bin/nvidia-container-runtime")
