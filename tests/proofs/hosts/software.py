"""Helpers for the tests of software on hosts: package repositories, declarations and scripts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.observed.inspect import observe_hosts
from gpu_cluster.hosts.phases import prepare_script
from gpu_cluster.loading.loader import load
from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.hosts import catalogue
from gpu_cluster_lab.simulator.hosts.packages import Format, Package, Signature, build, served
from tests.desired_host import desired_host
from tests.proofs.hosts.machine import Declared, Running, free_port

LIMIT = 300
"""Seconds that one command may run; package managers are slow on a busy machine."""
FORMATS: dict[str, Format] = {
    "debian": "apt",
    "debian13": "apt",
    "ubuntu": "apt",
    "rocky": "dnf",
    "fedora": "dnf",
}
UBUNTU = 'NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n'
"""Content of /etc/os-release that makes scripts treat a simulated Debian host as Ubuntu."""
VOLATILE = ("var/lib/apt", "var/lib/dnf", "var/lib/dpkg", "var/lib/rpm", "root", "boot/grub")
"""Paths of the package managers' own records, which change with each transaction."""


def start(cluster: str, system: str, **settings: Any) -> Running:
    """Start one GPU host with the given operating system and no NVIDIA driver."""
    path, public = simulated.client_key(cluster)
    declared = Declared("gpu-1", free_port())
    root = "debian" if system == "ubuntu" else system
    chosen = simulated.HostSettings(mode="namespaces", system=root, driver=None, **settings)
    simulated.up(cluster, [declared], public, chosen)
    host = Running(cluster, declared, path.read_text(), limit=LIMIT)
    if system == "ubuntu":
        host.write("/etc/os-release", UBUNTU)
    return host


def repository(url: str, key: str, system: str, **more: str) -> dict[str, Any]:
    """Return the section `repository` of a stack file, for the package manager of the system."""
    return {FORMATS[system]: {"url": url, "key": key, **more}}


@contextlib.contextmanager
def serving(
    system: str,
    packages: Sequence[Package],
    signature: Signature = "good",
    modules: str = "",
    release: str = "",
) -> Iterator[dict[str, Any]]:
    """Serve a package repository over HTTP on loopback and yield its section `repository`."""
    built = build(FORMATS[system], packages, signature, modules, release)
    with served(built.folder) as url:
        yield repository(url, built.key, system)


def drivers(system: str, *versions: str) -> contextlib.AbstractContextManager[dict[str, Any]]:
    """Serve a copy of NVIDIA's package repository that has the given driver versions.

    Package names, dependencies and dnf module streams are those of the real repository.
    """
    modules = catalogue.modules(*versions) if system == "rocky" else ""
    return serving(system, catalogue.driver(*versions, system=system), modules=modules)


def tools(system: str) -> contextlib.AbstractContextManager[dict[str, Any]]:
    """Serve a repository with compilers, kernel headers and InfiniBand tools for the system."""
    packages = [*catalogue.build_tools(system), *headers(system)]
    return serving(system, [*packages, *catalogue.fabric_tools(system)])


def script(
    sections: Mapping[str, Any],
    token: str | None = None,
    role: str = "gpu-worker",
    inline: bool = False,
) -> str:
    """Return the script of phase `prepare` for one host, from sections of a stack file."""
    host = {
        "name": "gpu-1",
        "address": "127.0.0.1",
        "hostKey": simulated.host_public_key("gpu-1"),
        "role": role,
    }
    pool = {"name": "a", "nodes": ["gpu-1"] if role == "gpu-worker" else ["other"]}
    cluster = load(
        {
            "version": "v1",
            "kubernetes": {"context": "here"},
            "platform": "device-plugin",
            "pools": [{**pool, "gpusPerNode": 8}],
            "hosts": [host],
            **sections,
        }
    )
    (declared,) = cluster.hosts
    return prepare_script(desired_host(cluster, declared), token, inline=inline)


def lasting(host: Running) -> dict[str, str]:
    """Return the host's persistent files, without the records of the package managers."""
    return {
        path: text
        for path, text in host.tree().items()
        if not path.startswith((*VOLATILE, *(f"upper/{name}" for name in VOLATILE)))
    }


def headers(system: str) -> list[Package]:
    """Return the packages with the headers of the kernel that a host with this system runs."""
    return catalogue.headers_dnf() if system == "rocky" else catalogue.headers_apt()


def installed(host: Running, system: str) -> dict[str, str]:
    """Map each installed package to its version, according to the package manager's records."""
    query = {
        "apt": "dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\\n'",
        "dnf": "rpm -qa --qf 'installed %{NAME} %{VERSION}-%{RELEASE}\\n'",
    }
    lines = host.run(query[FORMATS[system]]).output.splitlines()
    words = [line.split() for line in lines]
    return {word[1]: word[2] for word in words if word[0] == "installed"}


def held(host: Running, system: str) -> set[str]:
    """Return the packages that are held: an upgrade of the whole system leaves them unchanged."""
    if FORMATS[system] == "apt":
        return set(host.run("apt-mark showhold").output.split())
    lines = host.read("/etc/dnf/dnf.conf").splitlines()
    return {word for line in lines if line.startswith("excludepkgs=") for word in line[12:].split()}


def facts(host: Running) -> HostFacts:
    """Return what an inspection of the host finds."""
    found = asyncio.run(observe_hosts([host.declared], host.key, 30))[host.declared.name]
    assert found.error == ""
    return found


def drift(host: Running, phase: str = "prepare") -> tuple[str, ...]:
    """Return the drift that an inspection of the host reports for one phase."""
    return facts(host).drift.get(phase, ())
