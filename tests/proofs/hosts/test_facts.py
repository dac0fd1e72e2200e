"""Read-only inspection of hosts over SSH, and the findings derived from it."""

from __future__ import annotations

import asyncio
import dataclasses
import platform
import socket
from types import SimpleNamespace

import asyncssh
import pytest

from gpu_cluster.base.compatibility import kernel_refused, runs
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.host_facts import UNREAD, HostFacts
from gpu_cluster.hosts.observed.inspect import observe_hosts
from gpu_cluster.hosts.observed.probe import parse
from gpu_cluster.hosts.observed.table import table
from gpu_cluster.hosts.preflight import validate_host
from gpu_cluster.inspection.extent import Extent
from gpu_cluster.inspection.judgement import Seen
from gpu_cluster.inspection.observe import observe as inspection
from gpu_cluster.settings.hosts.host import Role
from gpu_cluster.settings.hosts.system import SystemSettings
from gpu_cluster.ssh.keys import fingerprint
from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.hosts import catalogue
from gpu_cluster_lab.toolchain import pins
from gpu_rules.faults import ConfigError, FaultSeverity
from tests.desired_host import desired_host
from tests.proofs.hosts import software
from tests.proofs.hosts.declared import prepare, runtime
from tests.proofs.hosts.machine import Declared, Running, differences, start
from tests.proofs.hosts.sound import GOOD, declared, declared_with

LOGIN = {"wanted": "a login of root", "cure": "start it"}


def look(*hosts: Running, limit: float = 20) -> dict[str, HostFacts]:
    declared = [host.declared for host in hosts]
    return asyncio.run(observe_hosts(declared, hosts[0].key, limit))


def test_an_inspection_finds_what_is_there_and_changes_nothing(host: Running) -> None:
    before = host.tree(times=True)
    facts = look(host)["gpu-1"]
    assert differences(before, host.tree(times=True)) == {}
    assert facts.error == ""
    assert (facts.os, facts.os_version, facts.nvidia_devices) == ("debian", "12", 8)
    assert facts.arch == platform.machine()
    assert facts.kernel == host.run("uname -r").output.strip()
    assert facts.driver == simulated.HostSettings().driver
    assert facts.containerd is not None
    assert facts.containerd.startswith("1.6.20")
    assert facts.toolkit == pins.NVIDIA_CTK
    assert facts.swap == ("/swap.img",)
    assert (facts.applied, facts.loaded) == ((), ())
    assert facts.simulated
    assert facts.boot_id == host.read("/proc/sys/kernel/random/boot_id").strip()


def test_drift_is_found_by_phase(host: Running) -> None:
    host.apply(prepare())
    host.apply(runtime())
    clean = look(host)["gpu-1"]
    assert clean.swap == ()
    assert clean.applied == ("prepare", "runtime")
    assert clean.drift == {}
    host.write("/etc/sysctl.d/zz-gpu-cluster.conf", "")
    host.run("modprobe nouveau; swapon /swap.img; rm /etc/containerd/conf.d/99-nvidia.toml")
    facts = look(host)["gpu-1"]
    assert facts.loaded == ("nouveau",)
    assert facts.drift == {
        "prepare": ("/etc/sysctl.d/zz-gpu-cluster.conf", "swap"),
        # The running containerd still has the runtime until its next start.
        "runtime": ("/etc/containerd/conf.d/99-nvidia.toml",),
    }
    assert facts.digests["/etc/containerd/conf.d/99-nvidia.toml"] == "missing"


CONFIG = """\
[nvidia-container-cli]
#no-cgroups = false
no-cgroups = true
root = "/run/nvidia/driver"
[nvidia-container-runtime]
mode = "legacy"
root = "/not/this/one"
"""
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"


def test_the_common_faults_of_a_driver_are_seen_on_the_host(host: Running) -> None:
    """An inspection reports common driver faults on a host.

    nvidia-smi and nv-fabricmanager print the messages that public bug reports quote.
    """
    programs = {
        "nvidia-smi": f"echo '{MISMATCH}'; echo 'NVML library version: 580.65'; exit 18",
        "nv-fabricmanager": "echo 'Fabric Manager version is : 570.172.08'",
        "nvidia-uninstall": "exit 1",
    }
    for name, text in programs.items():
        host.write(f"/usr/bin/{name}", f"#!/bin/sh\n{text}\n")
        host.run(f"chmod 755 /usr/bin/{name}")
    switch = "/sys/bus/pci/devices/0000:01:00.0"
    host.run(f"mkdir {switch}; echo 0x10de >{switch}/vendor; echo 0x068000 >{switch}/class")
    host.write("/etc/nvidia-container-runtime/config.toml", CONFIG.replace("\n", "\r\n"))
    gpu = "/proc/driver/nvidia/gpus/0000:10:00.0"
    host.run(f"mkdir -p {gpu} /usr/local/nvidia/toolkit")
    host.write(f"{gpu}/information", "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-1a2b\n")
    host.write("/usr/local/nvidia/toolkit/nvidia-container-runtime", "")
    facts = look(host)["gpu-1"]
    assert facts.error == ""
    assert facts.nvidia_smi == f"18 {MISMATCH} NVML library version: 580.65 "
    assert facts.fabric == "inactive 570.172.08"
    assert facts.runtime_mode == "legacy"
    assert facts.uuids == ("GPU-1a2b",)
    assert facts.leftovers == (
        "no-cgroups",
        "root /run/nvidia/driver",
        "operator-toolkit",
        "runfile ",
    )
    host.run("rm /usr/bin/nv-fabricmanager")
    assert look(host)["gpu-1"].fabric == "absent "


@pytest.mark.promise(
    "A host that cannot be trusted or reached is named with both fingerprints or its address, the "
    "reason and what to do."
)
def test_hosts_that_cannot_be_inspected_say_why(cluster: str, namespaces: None) -> None:
    first, second = start(cluster, "gpu-1", "gpu-2", mode="namespaces")
    other = dataclasses.replace(first.declared)
    # The declared host key is derived from the host's name, so another name gives a wrong host key.
    object.__setattr__(other, "name", "wrong-key")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        hosts = [
            Declared("gpu-2", second.declared.port),
            other,
            Declared("closed", 1),
            Declared("silent", silent.getsockname()[1], login_seconds=3),
        ]
        facts = asyncio.run(observe_hosts(hosts, first.key, limit=30))
    assert facts["gpu-2"].error == ""
    assert "another key than the declared one" in facts["wrong-key"].error
    assert facts["wrong-key"].refused
    keys = (first.declared.host_key, other.host_key)
    shown, declared = (fingerprint(asyncssh.import_public_key(key)) for key in keys)
    assert shown.startswith("ssh-ed25519 SHA256:")
    fault = facts["wrong-key"].error + facts["wrong-key"].wanted + facts["wrong-key"].cure
    for part in (shown, declared, "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub", "hostKey"):
        assert part in fault
    assert "`ssh -p 1 root@127.0.0.1`" in facts["closed"].cure
    assert "at host 127.0.0.1:1, stage connection: Connection refused" in facts["closed"].error
    assert not facts["closed"].refused
    assert "no SSH server answered within 3 s" in facts["silent"].error


def test_each_host_has_its_own_bastion_and_its_key_is_checked(
    cluster: str, namespaces: None
) -> None:
    bastion, target = start(cluster, "bastion", "gpu-1", mode="namespaces")
    # The declared host key is derived from the host's name, so this bastion gets a wrong host key.
    stranger = dataclasses.replace(bastion.declared, name="gpu-9")
    hosts = [
        dataclasses.replace(target.declared, bastion=bastion.declared),
        Alias("direct", target.declared.port),
        Alias("refused", target.declared.port, bastion=stranger),
    ]
    facts = asyncio.run(observe_hosts(hosts, target.key, limit=20))
    assert (facts["gpu-1"].error, facts["direct"].error) == ("", "")
    assert " at bastion 127.0.0.1:" in facts["refused"].error
    assert facts["refused"].refused
    assert bastion.log_ins == 1


class Alias(Declared):
    """Declared host with another name but the host key of `gpu-1`."""

    @property
    def host_key(self) -> str:
        return simulated.host_public_key("gpu-1")


def test_a_bad_private_key_is_told_without_the_key() -> None:
    hosts = [Declared("gpu-1", 1)]
    facts = asyncio.run(observe_hosts(hosts, "canary-not-a-key"))
    assert "private key can't be read" in facts["gpu-1"].error
    assert "canary" not in facts["gpu-1"].error


def _key(passphrase: str | None = None) -> str:
    key = asyncssh.generate_private_key("ssh-ed25519")
    return key.export_private_key(passphrase=passphrase).decode()


@pytest.mark.parametrize(
    ("key", "why"),
    [("canary", "Invalid private key"), (_key("canary"), "Passphrase must be specified")],
    ids=["no key", "with a passphrase"],
)
def test_a_bad_private_key_is_one_problem_with_its_cure(key: str, why: str) -> None:
    cluster, _ = declared()
    hosts = resolve(cluster, "test").hosts
    seen = inspection(hosts, (), None, key, Extent.HOSTS)
    (problem,) = seen.problems
    assert (seen.hosts, seen.reasons) == ({}, "")
    assert why in problem
    assert "; cure: `ssh-keygen" in problem
    assert "canary" not in problem
    assert inspection(hosts, (), None, key, Extent.OFF) == Seen()


def test_unknown_and_odd_lines_are_passed_over() -> None:
    facts = parse(["", "odd", "new=1", "nvidia_devices=many", "drift=prepare", "os=debian"])
    assert (facts.os, facts.nvidia_devices) == ("debian", 0)


def test_a_good_host_has_no_findings() -> None:
    cluster, host = declared()
    assert validate_host(desired_host(cluster, host), GOOD) == []


def test_an_engine_that_is_declared_may_be_missing() -> None:
    bare = dataclasses.replace(GOOD, containerd=None)
    cluster, host = declared_with(runtime={"install": {"packages": ["containerd"]}})
    assert validate_host(desired_host(cluster, host), bare) == []
    cluster, host = declared()
    (finding,) = validate_host(desired_host(cluster, host), bare)
    assert finding.cure == "install containerd, or declare runtime.install"


@pytest.mark.parametrize(
    ("change", "found", "severity"),
    [
        ({"os": "plan9"}, "operating system plan9", FaultSeverity.ERROR),
        ({"arch": "riscv64"}, "architecture riscv64", FaultSeverity.ERROR),
        ({"kernel": "3.10.0-1160.el7"}, "kernel 3.10.0-1160.el7", FaultSeverity.ERROR),
        ({"disk_free_mib": 3}, "3 MiB free", FaultSeverity.ERROR),
        ({"nvidia_devices": 7}, "7 NVIDIA PCI devices", FaultSeverity.ERROR),
        ({"driver": None}, "no NVIDIA driver loaded", FaultSeverity.ERROR),
        ({"driver": "550.1.2"}, "driver 550.1.2", FaultSeverity.ERROR),
        ({"containerd": None}, "no containerd", FaultSeverity.ERROR),
        ({"containerd": "1.4.13"}, "containerd 1.4.13", FaultSeverity.ERROR),
        ({"containerd": UNREAD}, "containerd without a version", FaultSeverity.ERROR),
        ({"toolkit": None}, "no nvidia-ctk", FaultSeverity.ERROR),
        ({"toolkit": UNREAD}, "nvidia-ctk without a version", FaultSeverity.ERROR),
        ({"loaded": ("nouveau",)}, "module nouveau loaded", FaultSeverity.WARNING),
        ({"package_lock": "/var/lib/dpkg/lock"}, "lock held", FaultSeverity.WARNING),
        ({"reboot_required": True}, "reboot pending", FaultSeverity.WARNING),
        ({"cgroup": 1}, "cgroup v1", FaultSeverity.WARNING),
        ({"skew": -3600.0}, "a clock 3600 s behind", FaultSeverity.WARNING),
        ({"reboot": ("nouveau is loaded",)}, "a reboot pending (nouveau", FaultSeverity.WARNING),
        ({"error": "no answer", **LOGIN}, "no answer", FaultSeverity.WARNING),
        ({"error": "another key", "refused": True, **LOGIN}, "another key", FaultSeverity.ERROR),
    ],
)
def test_each_fault_alone_is_found(
    change: dict[str, object], found: str, severity: FaultSeverity
) -> None:
    cluster, host = declared(version="595.91.07")
    (finding,) = validate_host(desired_host(cluster, host), dataclasses.replace(GOOD, **change))  # type: ignore[arg-type]
    assert (finding.place, finding.severity) == ("host gpu-1", severity)
    assert found in str(finding)
    assert finding.wanted
    assert finding.cure


@pytest.mark.promise("A host with a container toolkit below the security floor stops the run.")
@pytest.mark.parametrize(
    ("there", "package", "declared_version", "named"),
    [
        ("1.18.0", False, None, "1.18.0"),
        ("1.19.0", False, None, "1.19.0"),
        ("1.19.1", False, None, ""),
        ("1.18.0", True, None, "1.18.0"),
        ("1.18.0", True, "1.20.0", ""),
        (None, True, "1.19.1", ""),
    ],
)
def test_a_toolkit_below_the_bulletins_is_refused(
    there: str | None, package: bool, declared_version: str | None, named: str
) -> None:
    source = "package" if package else "preinstalled"
    toolkit = {"source": source, **({"version": declared_version} if declared_version else {})}
    cluster, host = declared_with(runtime={"toolkit": toolkit})
    faults = validate_host(desired_host(cluster, host), dataclasses.replace(GOOD, toolkit=there))
    assert [fault.found for fault in faults] == ([f"container-toolkit {named}"] if named else [])
    for fault in faults:
        assert fault.severity is FaultSeverity.ERROR
        assert fault.wanted == "1.19.1 or later"
        assert "NVIDIA bulletin 5850 of 2026-06-30: CVE-2026-24260" in fault.cure


@pytest.mark.promise("A container toolkit below the security floor can't be declared.")
@pytest.mark.parametrize("version", ["1.18.0", "1.19.0", "1.19.0-1", "1.4.0"])
def test_a_toolkit_below_the_bulletins_is_no_setting(version: str) -> None:
    with pytest.raises(ConfigError) as caught:
        declared_with(runtime={"toolkit": {"source": "package", "version": version}})
    for text in (f'found "{version}"', "wanted: 1.19.1 or later", "NVIDIA bulletin 5850"):
        assert text in str(caught.value)


@pytest.mark.promise("A host's driver below its branch's security floor is named, with the fix.")
@pytest.mark.parametrize(
    ("driver", "wanted"),
    [
        ("580.126.20", "580.159.03 or later of branch 580"),
        ("580.159.03", ""),
        ("595.71.04", "595.71.05 or later of branch 595"),
        ("595.71.05", ""),
        ("570.211.01", "580.159.03 or later: branch 570 has no fix"),
    ],
)
def test_a_driver_below_the_bulletins_is_named(driver: str, wanted: str) -> None:
    cluster, host = declared()
    faults = validate_host(desired_host(cluster, host), dataclasses.replace(GOOD, driver=driver))
    assert [(fault.wanted, fault.severity) for fault in faults] == (
        [(wanted, FaultSeverity.WARNING)] if wanted else []
    )


@pytest.mark.parametrize(
    ("driver", "cuda", "fits"),
    [
        ("525.60.13", "12.5.0", True),
        ("525.60.11", "12.5.0", False),
        ("595.91.07", "11.8.0", True),
        ("575.57.08", "13.0.1", False),
        ("580.65.06", "13.1", True),
    ],
)
def test_cuda_and_driver_that_do_not_fit_are_refused(driver: str, cuda: str, fits: bool) -> None:
    image = f"nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda{cuda}"
    cluster, host = declared_with(validation={"image": image})
    faults = validate_host(desired_host(cluster, host), dataclasses.replace(GOOD, driver=driver))
    faults = [fault for fault in faults if fault.severity is FaultSeverity.ERROR]
    assert [fault.severity for fault in faults] == ([] if fits else [FaultSeverity.ERROR])
    assert fits or f"driver {driver} for CUDA {cuda}" in str(faults[0])


@pytest.mark.parametrize(
    ("driver", "kernel", "refused"),
    [
        ("390.157", "6.5.2-arch1-1", "issue 558"),
        ("530.41.03", "6.4.0", "issue 501"),
        ("530.41.03", "6.1.0-18-amd64", ""),
        ("575.57.08", "6.15.0", ""),
        ("580.65.06", "3.10.0-1160.el7", "needs Linux 4.15"),
        ("595.91.07", "6.12.0", ""),
        # Kernel in a guide that warns of this driver version: kernel-ml of elrepo.
        ("440.36", "5.5.11-1.el7.elrepo.x86_64", "known not to build since Linux 5.5"),
        ("440.64", "5.5.11-1.el7.elrepo.x86_64", ""),
        ("440.64", "5.6.2", "issue 20505"),
        ("440.118.02", "5.6.2", ""),
        ("460.32.03", "5.11.0", "pull request 120655"),
        ("580.95.05", "6.18.1", "6.18"),
        ("580.105.08", "6.18.1", ""),
    ],
)
def test_driver_and_kernel_that_are_known_not_to_build_are_refused(
    driver: str, kernel: str, refused: str
) -> None:
    why = kernel_refused(driver, kernel)
    assert (refused in why) if refused else why == ""


@pytest.mark.parametrize(
    ("cuda", "driver", "fits"),
    [
        ("10.2", "418.87.00", False),
        ("10.2", "440.33.01", True),
        ("10.1", "418.39", True),
        ("10.0", "396.82", False),
        ("9.0", "384.81", True),
        ("11.0", "450.51.05", False),
        ("11.4", "450.80.02", True),
    ],
)
def test_cuda_versions_before_minor_version_compatibility_need_their_own_driver(
    cuda: str, driver: str, fits: bool
) -> None:
    assert runs(cuda, driver) == fits


def test_what_a_host_has_is_judged_with_what_is_declared() -> None:
    """Two declared versions are compared when the file is read, so here one is the host's."""
    cluster, host = declared_with(cuda={"source": "package", "version": "13.0"})
    facts = dataclasses.replace(GOOD, driver="530.41.03")
    text = "\n".join(map(str, validate_host(desired_host(cluster, host), facts)))
    assert "driver 530.41.03 for CUDA 13.0 of cuda.version" in text
    cluster, host = declared_with(driver={"version": "530.41.03"})
    facts = dataclasses.replace(GOOD, driver=None, kernel="6.5.0-41-amd64")
    text = "\n".join(map(str, validate_host(desired_host(cluster, host), facts)))
    assert "driver 530.41.03 on kernel 6.5.0-41-amd64, known not to build" in text


def test_secure_boot_is_told_where_no_driver_is_loaded_yet() -> None:
    facts = dataclasses.replace(GOOD, secure_boot=True)
    cluster, host = declared()
    assert validate_host(desired_host(cluster, host), facts) == []
    text = "\n".join(
        map(
            str, validate_host(desired_host(cluster, host), dataclasses.replace(facts, driver=None))
        )
    )
    assert "found Secure Boot on" in text


def test_the_table_has_every_host_and_says_once_what_is_alike() -> None:
    _, host = declared()
    other = host.model_copy(update={"name": "gpu-2", "role": Role.CONTROL_PLANE})
    dead = host.model_copy(update={"name": "gpu-3"})
    facts = {
        "gpu-1": dataclasses.replace(GOOD, nvswitches=4),
        "gpu-2": dataclasses.replace(GOOD, nvidia_devices=0, driver=None, loaded=("nouveau",)),
        "gpu-3": HostFacts(error="no answer within 10 s"),
    }
    origins = {"gpu-1": {"driver.version = 580.65.06": "pool a100"}}
    lines = table([host, other, dead], facts, origins).splitlines()
    assert lines[0].startswith("all 2 hosts that answer: ")
    assert "kernel 6.1.0-18-amd64" in lines[0]
    assert lines[1].split()[:2] == ["host", "role"]
    assert "8 +4 NVSwitch" in lines[2]
    assert "control-plane" in lines[3]
    assert "nouveau" in lines[3]
    assert not any("gpu-3" in line for line in lines)
    assert lines[-1] == "gpu-1: driver.version = 580.65.06 (of pool a100)"
    assert table([host], {}, {}) == ""


def test_what_is_expected_besides_files_is_drift_when_it_is_not_found(host: Running) -> None:
    script = prepare(system=SystemSettings(sysctl={"vm.max_map_count": "262144"}))
    host.apply(script)
    assert look(host)["gpu-1"].drift == {}
    host.run("sysctl -w vm.max_map_count=65530; modprobe -r br_netfilter")
    facts = look(host)["gpu-1"]
    assert facts.drift == {"prepare": ("module br_netfilter", "sysctl vm.max_map_count")}
    assert host.apply(script).changed == 2
    assert look(host)["gpu-1"].drift == {}


def test_software_that_went_is_drift(cluster: str, namespaces: None) -> None:
    with software.serving(
        "debian", [*catalogue.build_tools(), *catalogue.headers_apt()]
    ) as repository:
        machine = software.start(cluster, "debian")
        script = software.script({"packages": {"build": True, "repository": repository}})
        done = machine.apply(script)
        assert done.status == 0, done
        assert look(machine)["gpu-1"].drift == {}
        gone = machine.run("dpkg --purge --force-depends pciutils")
        assert gone.status == 0, gone
        assert look(machine)["gpu-1"].drift == {"prepare": ("package pciutils",)}
        assert "package pciutils" in machine.apply(script).output
        assert look(machine)["gpu-1"].drift == {}


def test_keys_of_the_wrong_kind_do_not_raise() -> None:
    key = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    login = {"address": "127.0.0.1", "port": 1, "user": "root", "login_seconds": 15}
    broken = SimpleNamespace(name="x", bastion=None, host_key="junk", **login)
    facts = asyncio.run(observe_hosts([broken], key))  # type: ignore[arg-type]
    assert facts["x"].error
