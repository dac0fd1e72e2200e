"""Hosts with real SSH servers, and the rig of a situation on one of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from gpu_cluster_lab.simulator.hosts import namespaced, rootfs
from tests.proofs.hosts.machine import Running, start, temporary_cluster
from tests.proofs.logins.rig import NAME, Rig, situation


def _hosts(system: str) -> Iterator[Running]:
    with temporary_cluster() as cluster:
        if reason := namespaced.reason_against(cluster):
            pytest.skip(f"hosts in namespaces: {reason}")
        yield start(cluster, NAME, mode="namespaces", system=system)[0]


@pytest.fixture(scope="module")
def debian() -> Iterator[Running]:
    """Return a host with Debian 12's OpenSSH, PAM and sudo."""
    yield from _hosts("debian")


@pytest.fixture(scope="module")
def debian_with_sudo_rs() -> Iterator[Running]:
    """Return a host of Debian 13 whose sudo is sudo-rs, from Debian's archive."""
    for host in _hosts("debian13"):
        root = rootfs.debian_root(lambda _: None, suite="trixie")
        host.write("/run/archive.list", (root / "etc/apt/sources.list").read_text())
        apart = "-o Dir::Etc::sourcelist=/run/archive.list -o APT::Update::Error-Mode=any"
        apt = f"DEBIAN_FRONTEND=noninteractive apt-get -q {apart}"
        patient = dataclasses.replace(host, limit=600)
        done = patient.run(f"{apt} update && {apt} install -y sudo-rs")
        if done.status != 0:
            pytest.skip(f"sudo-rs can't be had from Debian's archive: {done.errors.strip()[-200:]}")
        host.run("ln -sf /usr/bin/sudo-rs /usr/local/bin/sudo")
        yield host


@pytest.fixture
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """Return the rig of a situation on the host that it needs."""
    name = request.node.callspec.id
    host = "debian_with_sudo_rs" if "sudo_rs" in name else "debian"
    with situation(request.getfixturevalue(host)) as made:
        yield made
