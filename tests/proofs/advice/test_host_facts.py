"""Cures of what an inspection finds on a host are followed: on the host, or in the stack file."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.driver_daemonset.container import judge_all
from gpu_cluster.host_facts import UNREAD, HostFacts
from gpu_cluster.hosts.phases import preparation_disrupts
from gpu_cluster.hosts.preflight import validate_host
from gpu_cluster.inspection.ends import outlived
from gpu_cluster.loading.loader import load
from gpu_rules.faults import Fault
from tests.proofs.advice.edits import merged
from tests.proofs.advice.following import follow_cure, named
from tests.proofs.advice.rows import Record
from tests.proofs.hosts.sound import GOOD
from tests.proofs.logins.rig import NAME

Json = dict[str, Any]
TODAY = date(2026, 11, 30)
STACK: Json = {
    "version": "v1",
    "kubernetes": {"context": "test"},
    "platform": "device-plugin",
    "pools": [{"name": "a100", "nodes": [NAME, "gpu-2"], "gpusPerNode": 8}],
    "hosts": [
        {
            "name": name,
            "address": f"192.0.2.{number}",
            "hostKey": "ssh-ed25519 "
            "AAAAC3NzaC1lZDI1NTE5AAAAIGPVVJnWq0RGVDc6v0ocP1kZbAnZ3WQ2GuMHyM9Ea5kT",
        }
        for number, name in enumerate((NAME, "gpu-2"), start=1)
    ],
}
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ==\n-----END PGP PUBLIC KEY BLOCK-----\n"
CUDA = "https://developer.download.nvidia.com/compute/cuda/repos"
OPERATOR: Json = {"platform": "gpu-operator", "driver": {"source": "operator"}}
PACKAGE: Json = {"driver": {"source": "package", "version": "595.91.07"}}
PREPARED = {"prepare": preparation_disrupts(resolve(load(merged(STACK, PACKAGE)), "test").hosts[0])}


@dataclass(frozen=True)
class Cure:
    """A fault of a host, and what its cure says.

    Attributes:
        words: Words of the cure.
        facts: What breaks the host.
        stack: What breaks the stack file.
        on_host: What the act on the host changes of the facts.
        edit: Edit of the stack file.
    """

    words: str
    facts: Json = field(default_factory=dict)
    stack: Json = field(default_factory=dict)
    on_host: Json = field(default_factory=dict)
    edit: Json = field(default_factory=dict)


CURES = {
    "yum without dnf": Cure(
        "install a later system",
        {"os": "centos", "os_version": "7", "os_name": "CentOS Linux 7"},
        on_host={"os_version": "9", "os_name": "CentOS Stream 9"},
    ),
    "unknown system": Cure("use a supported system", {"os": "plan9"}, on_host={"os": "debian"}),
    "system of an image": Cure(
        "use a system whose packages are installed", {"image": "bootc"}, on_host={"image": ""}
    ),
    "unknown processor": Cure(
        "use a machine NVIDIA supports", {"arch": "riscv64"}, on_host={"arch": "aarch64"}
    ),
    "full disk": Cure("free space there", {"disk_free_mib": 3}, on_host={"disk_free_mib": 2048}),
    "package manager at work": Cure(
        "wait until the package manager ends",
        {"package_lock": "/var/lib/dpkg/lock-frontend"},
        on_host={"package_lock": ""},
    ),
    "reboot of a setting": Cure("reboot it, or", {"reboot": ("a kernel",)}, on_host={"reboot": ()}),
    "reboot of a setting, by the run": Cure(
        "declare reboot.when: required",
        {"reboot": ("a kernel",)},
        edit={"reboot": {"when": "required"}},
    ),
    "reboot of the system": Cure(
        "reboot the host before it gets work",
        {"reboot_required": True},
        on_host={"reboot_required": False},
    ),
    "clock": Cure("start a time service there", {"skew": -90.0}, on_host={"skew": 0.1}),
    "old key of NVIDIA's repository": Cure(
        "declare cuda/repos/debian13/x86_64 with its own key in driver.repository",
        {"os_version": "13"},
        stack={
            "driver": {
                "source": "package",
                "version": "595.91.07",
                "repository": {
                    "apt": {"url": f"{CUDA}/debian12/x86_64/", "key": KEY, "suite": "/"}
                },
            }
        },
        edit={"driver": {"repository": {"apt": {"url": f"{CUDA}/debian13/x86_64/"}}}},
    ),
    "Jetson": Cure(
        "take this host out of the stack file",
        {"nvidia_devices": 0, "tegra": "NVIDIA Jetson AGX Orin"},
        edit={"hosts": {0: None}},
    ),
    "seven GPUs": Cure(
        "or correct gpusPerNode",
        {"nvidia_devices": 7},
        edit={"pools": {0: {"gpusPerNode": 7}}},
    ),
    "seven GPUs, one declared as missing": Cure(
        "declare GPUs that are missing on the bus",
        {"nvidia_devices": 7},
        edit={"pools": {0: {"unhealthyDevices": {NAME: {"missing": 1}}}}},
    ),
    "another engine": Cure(
        "declare runtime.engine: docker",
        {"containerd": None, "docker": "28.5.1"},
        edit={"runtime": {"engine": "docker"}},
    ),
    "no engine": Cure("install containerd", {"containerd": None}, on_host={"containerd": "1.7.36"}),
    "engine without a version": Cure(
        "install it from a package", {"containerd": UNREAD}, on_host={"containerd": "1.7.36"}
    ),
    "old engine": Cure(
        "upgrade containerd", {"containerd": "1.4.13"}, on_host={"containerd": "1.7.36"}
    ),
    "driver of the host under the operator's": Cure(
        "declare driver.removeEarlier: true",
        stack=OPERATOR,
        edit={"driver": {"removeEarlier": True}},
    ),
    "driver of the host, kept": Cure(
        "or driver.source: preinstalled",
        stack=OPERATOR,
        edit={"driver": {"source": "preinstalled"}},
    ),
    "no driver": Cure("install the driver", {"driver": None}, on_host={"driver": "595.91.07"}),
    "removed driver": Cure(
        "set packages.remove to false",
        {"disrupts": PREPARED},
        stack={"packages": {"remove": True}},
        edit={"packages": {"remove": False}},
    ),
    "removed driver, declared again": Cure(
        "declare the driver again",
        {"disrupts": PREPARED},
        stack={"packages": {"remove": True}},
        edit=PACKAGE,
    ),
    "CUDA of a later driver": Cure(
        "an older CUDA in validation.image",
        {"driver": "535.309.01"},
        stack={"validation": {"image": "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda13.0.0"}},
        edit={"validation": {"image": "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.2.0"}},
    ),
    "driver that a kernel refuses": Cure(
        "declare another driver.version",
        {"kernel": "6.16.0", "driver": None},
        stack={"driver": {"source": "package", "version": "570.133.20"}},
        edit={"driver": {"version": "595.91.07"}},
    ),
    "Secure Boot": Cure(
        "turn it off in the firmware",
        {"driver": None, "secure_boot": True},
        stack=OPERATOR,
        on_host={"secure_boot": False},
    ),
    "old kernel": Cure("upgrade it, or", {"kernel": "3.10.0"}, on_host={"kernel": "5.14.0"}),
    "old kernel, another declared": Cure(
        "declare kernel.release",
        {"kernel": "3.10.0"},
        edit={"kernel": {"release": "6.1.0-18-amd64"}},
    ),
    "cgroup v1 and a kubelet that refuses it": Cure(
        "boot with systemd.unified_cgroup_hierarchy=1",
        {"cgroup": 1},
        stack={"kubernetesPackages": {"version": "1.35.2"}},
        on_host={"cgroup": 2},
    ),
    "cgroup v1": Cure(
        "boot with systemd.unified_cgroup_hierarchy=1", {"cgroup": 1}, on_host={"cgroup": 2}
    ),
    "nouveau": Cure(
        "reboot the host after it is prepared", {"loaded": ("nouveau",)}, on_host={"loaded": ()}
    ),
    "no toolkit": Cure(
        "install nvidia-container-toolkit", {"toolkit": None}, on_host={"toolkit": "1.20.0"}
    ),
    "no toolkit, installed by the run": Cure(
        "declare runtime.toolkit.source: package",
        {"toolkit": None},
        edit={"runtime": {"toolkit": {"source": "package"}}},
    ),
    "toolkit without a version": Cure(
        "install it from a package", {"toolkit": UNREAD}, on_host={"toolkit": "1.20.0"}
    ),
    "mode legacy": Cure(
        "--set nvidia-container-runtime.mode=auto",
        {"runtime_mode": "legacy"},
        on_host={"runtime_mode": "auto"},
    ),
    "engine of other software": Cure(
        "take the host out of `hosts`", {"foreign": ("k0s",)}, edit={"hosts": {0: None}}
    ),
}


def judged(stack: Json, facts: Json) -> list[Fault]:
    """Return the faults and warnings about the host `gpu-1` of a stack file, if it is declared."""
    hosts = resolve(load(merged(STACK, stack)), "test").hosts
    seen = dataclasses.replace(GOOD, **facts)
    return [one for host in hosts if host.name == NAME for one in validate_host(host, seen)]


@pytest.mark.promise("A cure of what is found on a host removes the fault and brings no new one.")
@pytest.mark.parametrize("row", named(CURES))
def test_the_cure_of_a_host_is_followed(row: Cure, record_property: Record) -> None:
    cured = merged(merged(STACK, row.stack), row.edit)
    follow_cure(
        row.words,
        lambda: judged(row.stack, row.facts),
        lambda: judged(cured, {**row.facts, **row.on_host}),
        record_property,
    )


@pytest.mark.advice("several")
def test_hosts_of_two_systems_get_a_driver_each(record_property: Record) -> None:
    facts = {
        NAME: HostFacts(os="ubuntu", os_version="24.04"),
        "gpu-2": HostFacts(os="ubuntu", os_version="22.04"),
    }

    def check(driver: Json) -> list[Fault]:
        return judge_all(
            resolve(load(merged(STACK, merged(OPERATOR, {"driver": driver}))), "test").hosts, facts
        )

    follow_cure(
        'write "resource: true" under driver',
        lambda: check({}),
        lambda: check({"resource": True}),
        record_property,
    )


@pytest.mark.advice("several")
@pytest.mark.parametrize(
    ("words", "before", "after"),
    [
        ("upgrade the system", {"os": "debian", "os_version": "11"}, {"os_version": "13"}),
        ("upgrade containerd", {"containerd": "2.3.1"}, {"containerd": "2.3.7"}),
    ],
)
def test_a_version_without_fixes_is_upgraded(
    words: str, before: Json, after: Json, record_property: Record
) -> None:
    good = HostFacts(os="ubuntu", os_version="26.04", containerd="2.3.7", driver="595.91.07")
    desired = resolve(load(STACK), "test")

    def check(facts: Json) -> list[Fault]:
        seen = {NAME: dataclasses.replace(good, **facts)}
        hosts = desired.hosts
        return list(outlived("test", desired.nodes, hosts, seen, "v1.36.3", {}, TODAY))

    follow_cure(words, lambda: check(before), lambda: check({**before, **after}), record_property)
