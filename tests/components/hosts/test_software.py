"""Settings of kernel, driver, CUDA and packages: validation, rendered scripts and findings."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gpu_cluster.base.compatibility import runs
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.command import command_line
from gpu_cluster.hosts.phases import (
    RUN_LIMIT,
    preparation_seconds,
    prepare_script,
    prepared,
    runtime_script,
    runtime_seconds,
)
from gpu_cluster.hosts.preflight import unequal, validate_host
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.cluster import Cluster
from gpu_rules.faults import ConfigError, FaultSeverity
from tests.desired_host import desired_host
from tests.fixtures.clusters import INSTALLERS
from tests.fixtures.documents import stack_document

SUM = "0" * 64
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ==\n-----END PGP PUBLIC KEY BLOCK-----"
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPVVJnWq0RGVDc6v0ocP1kZbAnZ3WQ2GuMHyM9Ea5kT"
RUNFILE = {"locations": ["https://mirror.example.org/driver.run"], "sha256": SUM}
RUNFILE_DRIVER = {"source": "runfile", "version": "580.65.06", "runfile": RUNFILE}


SOFTWARE = ("packages", "kernel", "driver", "cuda", "engine", "kubernetes")
UNCHECKED = {"nodeRegistration": {"ignorePreflightErrors": ["SystemVerification"]}}


def cluster(first: dict[str, Any] | None = None, **sections: Any) -> Cluster:
    """Return a configuration of two GPU hosts and a control plane with the given sections.

    `first` has additional settings of the host gpu-1.
    """
    names = {"gpu-1": "gpu-worker", "gpu-2": "gpu-worker", "cp-1": "control-plane"}
    hosts: list[dict[str, Any]] = [
        {"name": name, "role": role, "address": f"192.0.2.{i}", "hostKey": HOST_KEY}
        for i, (name, role) in enumerate(names.items(), 1)
    ]
    hosts[0] |= first or {}
    return load(
        stack_document(
            context="here",
            pools=[{"name": "a", "nodes": ["gpu-1", "gpu-2"], "gpusPerNode": 8}],
            hosts=hosts,
        )
        | sections
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
        (
            {"runtime": {"engine": "k3s", "install": {"packages": ["k3s"]}}},
            "install for engine k3s",
        ),
        (
            {"runtime": {"engine": "docker", "install": {"packages": ["docker-ce"]}}},
            "engine docker without criDockerd",
        ),
        (
            {"runtime": {"install": {"packages": ["containerd"], "criDockerd": RUNFILE}}},
            "engine containerd and criDockerd",
        ),
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
    given = prepared(desired_host(declared, host))
    return tuple(name for name in given if given[name].runs)


def test_hosts_without_gpus_get_no_gpu_step() -> None:
    declared = cluster(
        driver=RUNFILE_DRIVER,
        cuda={"source": "package", "version": "12.8"},
        kernel={"release": "6.1.0-41-amd64"},
        kubernetesPackages={"version": "1.34.4"},
        runtime={"install": {"packages": ["containerd"]}},
    )
    assert names_of(declared, "gpu-1") == SOFTWARE
    assert names_of(declared, "cp-1") == ("kernel", "engine", "kubernetes")
    assert names_of(cluster(), "gpu-1") == ()


def test_a_host_overrides_its_kernel_alone() -> None:
    declared = cluster(
        {"kernel": {"release": "6.1.0-42-amd64"}}, kernel={"release": "6.1.0-41-amd64"}
    )
    scripts = [prepare_script(desired_host(declared, host)) for host in declared.hosts]
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
        found = [str(each) for each in validate_host(desired_host(declared, 0), bare)]
        assert any("no NVIDIA driver" in each for each in found) is stopped


def test_what_a_platform_does_not_need_of_a_host_is_not_asked_for() -> None:
    """gpu-manager requires cgroup v1; only the NVIDIA container runtime requires nvidia-ctk."""
    facts = HostFacts(
        os="debian", arch="x86_64", kernel="6.1.0", nvidia_devices=8, driver="580.65.06", cgroup=1
    )

    def asked(platform: str, text: str) -> bool:
        declared = cluster(platform=platform)
        return any(text in str(each) for each in validate_host(desired_host(declared, 0), facts))

    platforms = ("device-plugin", "dra", "gpu-manager", "gpu-operator", "hami")
    assert [name for name in platforms if asked(name, "nvidia-ctk")] == [
        "device-plugin",
        "gpu-operator",
        "hami",
    ]
    assert [name for name in platforms if not asked(name, "cgroup v1")] == ["gpu-manager"]


def test_a_leftover_driver_is_told_where_another_one_comes() -> None:
    facts = HostFacts(os="debian", arch="x86_64", kernel="6.1.0", driver="580.65.06")
    declared = cluster(
        driver={"source": "daemonset", "version": "595.91.07"},
        driverInstaller={"images": INSTALLERS},
    )
    found = validate_host(desired_host(declared, 0), facts)
    assert [
        each.severity
        for each in found
        if "driver 580.65.06 installed and loaded on the host" in each.found
    ] == [FaultSeverity.WARNING]


def test_unequal_kernels_of_a_pool_are_told_unless_one_is_pinned() -> None:
    facts = {
        "gpu-1": HostFacts(kernel="6.1.0-40-amd64"),
        "gpu-2": HostFacts(kernel="6.1.0-41-amd64"),
        "cp-1": HostFacts(kernel="6.1.0-99-amd64"),
    }
    (told,) = unequal(resolve(cluster(), "dev").hosts, facts)
    assert "pool a: found 2 kernels (6.1.0-40-amd64 on gpu-1; 6.1.0-41-amd64 on gpu-2)" in told
    assert unequal(resolve(cluster(kernel={"release": "6.1.0-41-amd64"}), "dev").hosts, facts) == []
    assert (
        unequal(resolve(cluster(), "dev").hosts, {**facts, "gpu-2": HostFacts(error="no answer")})
        == []
    )


@pytest.mark.parametrize(
    ("sections", "found"),
    [
        ({"driver": {"hold": False}}, "hold, which source preinstalled does not use"),
        (
            {"driver": {"fabricManager": "on"}},
            "fabricManager, which source preinstalled does not use",
        ),
        (
            {"driver": {"repository": {"apt": {"url": "https://m.example.org", "key": KEY}}}},
            "repository, which source preinstalled does not use",
        ),
        ({"runtime": {"toolkit": {"version": "1.12.0"}}}, "1.12.0"),
        (
            {
                "packages": {
                    "repository": {
                        "apt": {
                            "url": "https://m.example.org",
                            "key": KEY,
                            "keys": [{"url": "https://m.example.org/key", "sha256": SUM}],
                        }
                    }
                }
            },
            "more than one",
        ),
    ],
)
def test_what_would_be_ignored_is_refused(sections: dict[str, Any], found: str) -> None:
    with pytest.raises(ConfigError) as refused:
        cluster(**sections)
    assert found in str(refused.value)


def test_a_host_with_a_driver_of_its_own_drops_what_the_stack_says_of_drivers() -> None:
    driver = {"source": "package", "version": "580.65.06", "hold": False}
    declared = cluster({"driver": {"source": "preinstalled"}}, driver=driver)
    assert "driver" not in names_of(declared, "gpu-1")
    assert "driver" in names_of(declared, "gpu-2")


def test_dkms_is_installed_only_where_something_asks_for_it() -> None:
    def packages(**sections: Any) -> list[str]:
        declared = cluster(**sections)
        (host,) = [host for host in declared.hosts if host.name == "gpu-1"]
        return prepared(desired_host(declared, host))["packages"].settings["GC_PACKAGES"].split()

    plain = {**RUNFILE_DRIVER, "runfile": {**RUNFILE, "dkms": False}}
    assert "dkms" in packages(driver=RUNFILE_DRIVER)
    assert "dkms" in packages(packages={"build": True})
    assert "dkms" not in packages(driver=plain)
    assert "dkms" not in packages(driver={"source": "package", "version": "580.65.06"})


def test_the_runtime_waits_for_the_package_manager_as_long_as_is_declared() -> None:
    declared = cluster(packages={"lockSeconds": 900})
    (host,) = [host for host in declared.hosts if host.name == "gpu-1"]
    assert "GC_PACKAGE_LOCK_LIMIT=900\n" in runtime_script(desired_host(declared, host))


CUDA_REPOS = "https://developer.download.nvidia.com/compute/cuda/repos"


@pytest.mark.parametrize(
    ("os_version", "url", "refused"),
    [
        ("13", f"{CUDA_REPOS}/debian12/x86_64", True),
        ("13", f"{CUDA_REPOS}/debian13/x86_64", False),
        ("12", f"{CUDA_REPOS}/debian12/x86_64", False),
        ("13", "https://mirror.example.org/cuda", False),
    ],
)
def test_debian_13_refuses_keys_bound_by_sha_1(os_version: str, url: str, refused: bool) -> None:
    repository = {"apt": {"url": url, "key": KEY}}
    driver = {"source": "package", "version": "580.65.06", "repository": repository}
    declared = cluster(driver=driver)
    facts = HostFacts(os="debian", os_version=os_version, kernel="6.12.0", disk_free_mib=99999)
    (host,) = [host for host in declared.hosts if host.name == "gpu-1"]
    found = [
        each
        for each in validate_host(desired_host(declared, host), facts)
        if "Debian 13" in each.found
    ]
    assert bool(found) == refused


@pytest.mark.parametrize(("container", "told"), [(True, False), (False, True)])
def test_a_driver_that_a_container_loaded_is_no_driver_of_the_host(
    container: bool, told: bool
) -> None:
    declared = cluster(platform="gpu-operator", driver={"source": "operator"})
    facts = HostFacts(os="ubuntu", os_version="24.04", driver="595.91.07")
    facts = dataclasses.replace(facts, driver_container=container)
    (host,) = [host for host in declared.hosts if host.name == "gpu-1"]
    found = validate_host(desired_host(declared, host), facts)
    assert any("installed and loaded on the host" in each.found for each in found) == told


def test_a_hosts_own_driver_may_be_removed_where_a_container_brings_one() -> None:
    declared = cluster(
        platform="gpu-operator", driver={"source": "operator", "removeEarlier": True}
    )
    (host,) = [host for host in declared.hosts if host.name == "gpu-1"]
    assert "GC_DRIVER_SOURCE=operator\n" in prepare_script(desired_host(declared, host))
    found = validate_host(
        desired_host(declared, host), HostFacts(os="ubuntu", os_version="24.04", driver="595.91.07")
    )
    assert not any("installed and loaded on the host" in each.found for each in found)


def test_a_cuda_toolkit_fits_the_driver_that_nvidia_ships_with_it() -> None:
    assert runs("11.0", "450.51.06")
    assert not runs("11.0", "440.64")
    assert not runs("11.1", "450.51.06")


def test_a_commands_limit_holds_all_that_its_installers_may_take() -> None:
    declared = cluster(
        packages={"lockSeconds": 100},
        kernel={"release": "6.1.0-41-amd64"},
        runtime={"toolkit": {"source": "package"}},
    )
    first, *_ = resolve(declared, "dev").hosts
    assert preparation_seconds(first) == 2 * (RUN_LIMIT + 100)
    assert command_line(first, "apply", preparation_seconds(first)) == (
        f"timeout -k 10 {600 + 2 * (RUN_LIMIT + 100)} sh -s -- apply"
    )
    assert runtime_seconds(first) == 2 * (RUN_LIMIT + 100)
    assert preparation_seconds(resolve(cluster(), "dev").hosts[2]) == 0


def test_an_old_kernel_is_refused_unless_the_declared_one_cures_it() -> None:
    old = HostFacts(os="debian", os_version="9", arch="x86_64", kernel="4.9.0-19-amd64")
    for declared, stopped in ((cluster(), True), (cluster(kernel={"release": "5.4.278"}), False)):
        found = [str(each) for each in validate_host(desired_host(declared, 0), old)]
        assert any("4.18 or later" in each for each in found) is stopped


@pytest.mark.promise(
    "A host whose system has yum and no dnf, such as CentOS 7, is refused by name before anything "
    "is changed."
)
@pytest.mark.parametrize(
    ("os", "os_version", "refused"),
    [
        ("centos", "7", True),
        ("rhel", "7.9", True),
        ("ol", "7.9", True),
        ("amzn", "2", True),
        ("centos", "8", False),
        ("rocky", "9.4", False),
        ("amzn", "2023", False),
        ("fedora", "42", False),
        ("debian", "12", False),
    ],
)
def test_a_system_without_dnf_is_named(os: str, os_version: str, refused: bool) -> None:
    # The step can't install this kernel on a system without dnf.
    declared = cluster(kernel={"release": "5.4.278"})
    facts = HostFacts(os=os, os_version=os_version, arch="x86_64", kernel="3.10.0-1160.el7.x86_64")
    found = validate_host(desired_host(declared, 0), facts)
    assert any("no dnf" in each.found for each in found) is refused
    if refused:
        # Nothing else is reported: no other cure, such as an upgrade of the kernel, would help.
        assert [each.severity for each in found] == [FaultSeverity.ERROR]
        assert str(found[0]).startswith(f"host gpu-1: found {os} {os_version}, which has yum")


def test_a_host_whose_containers_lose_their_gpus_at_a_reload_is_named() -> None:
    declared = cluster()
    for mode, warned in (("legacy", True), ("auto", False), ("", False)):
        facts = HostFacts(os="debian", toolkit="1.20.0", runtime_mode=mode)
        found = [str(each) for each in validate_host(desired_host(declared, 0), facts)]
        assert any("lose their GPUs when systemd reloads" in each for each in found) is warned


@pytest.mark.parametrize(
    ("platform", "source", "refused"),
    [
        ("device-plugin", "package", ()),
        ("dra", "package", ("driver.imexNodes",)),
        ("device-plugin", "preinstalled", ("driver",)),
    ],
)
def test_imex_of_hosts_is_refused_where_others_run_it_or_hosts_are_left_alone(
    platform: str, source: str, refused: tuple[str, ...]
) -> None:
    nodes = ["192.0.2.1", "192.0.2.2"]
    section = {"source": source, "imexNodes": nodes}
    if refused:
        with pytest.raises(ConfigError) as raised:
            cluster(platform=platform, driver=section)
        assert tuple(each.place for each in raised.value.faults) == refused
        return
    declared = cluster(platform=platform, driver=section)
    settings = prepared(desired_host(declared, 0))["driver"].settings
    assert settings["GC_DRIVER_IMEX_NODES"].split() == nodes


@pytest.mark.promise("A host with cgroup v1 stops a cluster of a Kubernetes that refuses it.")
@pytest.mark.parametrize(
    ("version", "init", "severity"),
    [
        ("1.34.4", {}, FaultSeverity.WARNING),
        ("1.35.4", {}, FaultSeverity.ERROR),
        ("1.37.2", {}, FaultSeverity.ERROR),
        ("1.37.2", {"kubeletConfiguration": {"failCgroupV1": False}}, FaultSeverity.ERROR),
        (
            "1.37.2",
            {"kubeletConfiguration": {"failCgroupV1": True}, **UNCHECKED},
            FaultSeverity.ERROR,
        ),
        ("1.37.2", {"kubeletConfiguration": {"failCgroupV1": False}, **UNCHECKED}, None),
    ],
)
@pytest.mark.parametrize("platform", ["device-plugin", "gpu-manager"])
def test_kubelets_of_1_35_and_later_refuse_cgroup_v1(
    version: str, init: dict[str, Any], severity: FaultSeverity | None, platform: str
) -> None:
    made = {"endpoint": "192.0.2.9:6443", "network": {"manifest": "cni.yaml"}, **init}
    declared = cluster(platform=platform, kubernetesPackages={"version": version, "init": made})
    found = [
        fault.severity
        for fault in validate_host(desired_host(declared, 2), HostFacts(cgroup=1))
        if "cgroup v1" in fault.found
    ]
    maintained = severity in (None, FaultSeverity.WARNING)  # gpu-manager requires cgroup v1.
    expected = severity or FaultSeverity.WARNING
    assert found == ([] if maintained and platform == "gpu-manager" else [expected])


@pytest.mark.parametrize(
    ("allowed", "severity", "said"),
    [
        (False, FaultSeverity.ERROR, "kubelet 1.36.3 does not start by itself"),
        (True, FaultSeverity.WARNING, "cgroup v1"),
    ],
)
def test_a_host_that_joins_with_cgroup_v1_needs_a_kubelet_that_takes_it(
    allowed: bool, severity: FaultSeverity, said: str
) -> None:
    join = {"endpoint": "192.0.2.9:6443", "caCertHashes": [f"sha256:{'0' * 64}"]}
    declared = cluster(kubernetesPackages={"version": "1.36.3", "join": join})
    facts = HostFacts(cgroup=1, kubelet_cgroup_v1=allowed)
    (fault,) = (
        each for each in validate_host(desired_host(declared), facts) if "cgroup v1" in each.found
    )
    assert fault.severity is severity
    assert said in fault.found


@pytest.mark.promise(
    "k0s and snaps, whose container engine this project does not set up, are named."
)
def test_an_engine_inside_of_something_else_is_named() -> None:
    facts = HostFacts(foreign=("k0s", "snap-docker"))
    found = [each.found for each in validate_host(desired_host(cluster()), facts)]
    assert "k0s and snap-docker, with its own container engine" in found
