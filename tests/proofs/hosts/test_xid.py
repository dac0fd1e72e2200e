"""Xid errors in a host's kernel log are reported: in few lines, escaped, and without delay."""

from __future__ import annotations

import asyncio

import pytest

from gpu_cluster.desired.host import Target
from gpu_cluster.settings.hosts.host import Role
from gpu_cluster.validation import xid
from gpu_cluster_lab.simulator.hosts import processes
from gpu_cluster_lab.simulator.hosts.model import hosts_dir
from tests.proofs.hosts.machine import Running

XID = "[  12.3] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


def read(host: Running, key: str = "") -> dict[str, str]:
    declared = host.declared
    target = Target(
        name=declared.name,
        node=declared.name,
        role=Role.GPU_WORKER,
        address=declared.address,
        port=declared.port,
        user=declared.user,
        host_key=declared.host_key,
        bastion=None,
    )
    return asyncio.run(xid.lines({"gpu-1": target}, key, ["gpu-1", "gpu-9"]))


@pytest.mark.full
def test_the_last_lines_of_a_host_are_shown_bounded_and_escaped(
    plain_host: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = plain_host
    assert read(host) == {}  # The inspection doesn't read the kernel log if it has no SSH key.
    log = "\n".join(
        ["[1.0] other", *[f"{XID} {n}" for n in range(5000)], f"{XID}\x1b[2J{'x' * 500}"]
    )
    host.write("/kernel.log", log)
    host.write("/usr/local/bin/dmesg", f"#!/bin/sh\ncat '{host.root}/kernel.log'\n")
    (host.root / "usr/local/bin/dmesg").chmod(0o755)
    monkeypatch.setattr(xid, "SCRIPT", f"PATH={host.root}/usr/local/bin:$PATH; {xid.SCRIPT}")
    (text,) = read(host, host.key).values()
    assert text.startswith(f"host gpu-1: {XID} 4998 / {XID} 4999 / {XID}")
    assert "\x1b" not in text
    assert len(text) < 700
    processes.end(hosts_dir(host.cluster) / host.declared.name)
    (text,) = read(host, host.key).values()
    assert text.startswith("host gpu-1: its kernel's log can't be read: ")
