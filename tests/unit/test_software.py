"""What is declared of kernel, driver, CUDA and packages: accepted, refused, rendered, judged."""

from __future__ import annotations

from typing import Any

import pytest

from components.hosts.facts import HostFacts
from components.hosts.kernels import unequal
from components.hosts.preflight import judge
from components.hosts.prepare_script import prepare_script
from components.hosts.software import NAMES, steps
from components.settings.cluster import Cluster
from components.settings.loader import load
from config.problem import ConfigError, Severity

SUM = "0" * 64
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ==\n-----END PGP PUBLIC KEY BLOCK-----"
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPVVJnWq0RGVDc6v0ocP1kZbAnZ3WQ2GuMHyM9Ea5kT"
RUNFILE = {"locations": ["https://mirror.example.org/driver.run"], "sha256": SUM}
RUNFILE_DRIVER = {"source": "runfile", "version": "580.65.06", "runfile": RUNFILE}


def cluster(first: dict[str, Any] | None = None, **sections: Any) -> Cluster:
    """Two GPU hosts and a control plane, with these sections; ``first``: more of gpu-1."""
    names = {"gpu-1": "gpu-worker", "gpu-2": "gpu-worker", "cp-1": "control-plane"}
    hosts: list[dict[str, Any]] = [
        {"name": name, "role": role, "address": f"192.0.2.{i}", "hostKey": HOST_KEY}
        for i, (name, role) in enumerate(names.items(), 1)
    ]
    hosts[0] |= first or {}
    return load(
        {
            "version": "v1",
            "kubernetes": {"context": "here"},
            "platform": "device-plugin",
            "pools": [{"name": "a", "nodes": ["gpu-1", "gpu-2"], "gpusPerNode": 8}],
            "hosts": hosts,
            **sections,
        }
    )


@pytest.mark.parametrize(
    ("sections", "found"),
    [
        ({"driver": {"source": "runfile"}}, "source runfile without runfile"),
        (
            {"driver": {"source": "package", "runfile": RUNFILE}},
            "source package with runfile",
        ),
        ({"driver": {**RUNFILE_DRIVER, "version": None}}, "a runfile without version"),
        ({"cuda": {"source": "package"}}, "source package with version None"),
        ({"cuda": {"version": "12.8"}}, "source none with version 12.8"),
        ({"cuda": {"source": "runfile", "version": "12.8"}}, "source runfile without runfile"),
        ({"kernel": {"release": "linux"}}, '"linux"'),
        ({"kubernetesPackages": {"version": "v1.34.4"}}, '"v1.34.4"'),
        ({"packages": {"install": ["gcc; reboot"]}}, '"gcc; reboot"'),
        ({"packages": {"repository": {"apt": {"url": "https://m.example.org"}}}}, "no signing key"),
        (
            {"packages": {"repository": {"apt": {"url": "https://m.example.org/a b", "key": KEY}}}},
            "https://m.example.org/a b",
        ),
        (
            {"packages": {"repository": {"dnf": {"url": "ftp://m.example.org", "key": KEY}}}},
            "ftp://m.example.org",
        ),
    ],
)
def test_contradictions_are_refused(sections: dict[str, Any], found: str) -> None:
    with pytest.raises(ConfigError) as refused:
        cluster(**sections)
    assert found in str(refused.value)


def names_of(declared: Cluster, name: str) -> tuple[str, ...]:
    (host,) = [host for host in declared.hosts if host.name == name]
    return steps(declared.of(host), host).names


def test_hosts_without_gpus_get_no_gpu_step() -> None:
    declared = cluster(
        driver=RUNFILE_DRIVER,
        cuda={"source": "package", "version": "12.8"},
        kernel={"release": "6.1.0-41-amd64"},
        kubernetesPackages={"version": "1.34.4"},
    )
    assert names_of(declared, "gpu-1") == NAMES
    assert names_of(declared, "cp-1") == ("kernel", "kubernetes")
    assert names_of(cluster(), "gpu-1") == ()


def test_a_host_overrides_its_kernel_alone() -> None:
    declared = cluster(
        {"kernel": {"release": "6.1.0-42-amd64"}}, kernel={"release": "6.1.0-41-amd64"}
    )
    scripts = [prepare_script(declared.of(host), host) for host in declared.hosts]
    assert ["GC_KERNEL_RELEASE=6.1.0-42-amd64" in script for script in scripts] == [
        True,
        False,
        False,
    ]


def test_a_driver_that_the_preparation_brings_may_be_missing() -> None:
    bare = HostFacts(
        os="debian", arch="x86_64", kernel="6.1.0-40-amd64", nvidia_devices=8, disk_free_mib=9999
    )
    for source, stopped in (({"source": "preinstalled"}, True), (RUNFILE_DRIVER, False)):
        declared = cluster(driver=source)
        found = [str(each) for each in judge(declared.hosts[0], bare, declared)]
        assert any("no NVIDIA driver" in each for each in found) is stopped


def test_what_a_platform_does_not_need_of_a_host_is_not_asked_for() -> None:
    """gpu-manager works with cgroup v1 alone, and only the NVIDIA runtime needs nvidia-ctk."""
    facts = HostFacts(
        os="debian", arch="x86_64", kernel="6.1.0", nvidia_devices=8, driver="580.65.06", cgroup=1
    )

    def asked(platform: str, text: str) -> bool:
        declared = cluster(platform=platform)
        return any(text in str(each) for each in judge(declared.hosts[0], facts, declared))

    platforms = ("device-plugin", "dra", "gpu-manager", "gpu-operator")
    assert [name for name in platforms if asked(name, "nvidia-ctk")] == [
        "device-plugin",
        "gpu-operator",
    ]
    assert [name for name in platforms if not asked(name, "cgroup v1")] == ["gpu-manager"]


def test_a_leftover_driver_is_told_where_another_one_comes() -> None:
    facts = HostFacts(os="debian", arch="x86_64", kernel="6.1.0", driver="580.65.06")
    declared = cluster(driver={"source": "daemonset", "version": "595.91.07"})
    found = judge(declared.hosts[0], facts, declared)
    assert [each.severity for each in found if "driver 580.65.06 on the host" in each.found] == [
        Severity.WARNING
    ]


def test_unequal_kernels_of_a_pool_are_told_unless_one_is_pinned() -> None:
    facts = {
        "gpu-1": HostFacts(kernel="6.1.0-40-amd64"),
        "gpu-2": HostFacts(kernel="6.1.0-41-amd64"),
        "cp-1": HostFacts(kernel="6.1.0-99-amd64"),
    }
    (told,) = unequal(cluster(), facts)
    assert "pool a: found 2 kernels (6.1.0-40-amd64 on gpu-1; 6.1.0-41-amd64 on gpu-2)" in told
    assert unequal(cluster(kernel={"release": "6.1.0-41-amd64"}), facts) == []
    assert unequal(cluster(), {**facts, "gpu-2": HostFacts(error="no answer")}) == []
