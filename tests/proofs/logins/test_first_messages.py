"""What counts stands within the first lines of a message that a person meets first."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from gpu_cluster.charts.availability import WantedChart
from gpu_cluster.host_facts import UNREAD
from gpu_cluster.hosts.observed.inspect import observe_hosts
from gpu_cluster.hosts.preflight import validate_host
from gpu_cluster.inspection.judgement import _check_chart
from gpu_cluster.loading.stack_file import load_stack_file
from gpu_rules.faults import ConfigError, FaultError, FaultSeverity
from tests.desired_host import desired_host
from tests.proofs.hosts.sound import GOOD, declared
from tests.proofs.logins.lines import lines_before

STACK = """\
config:
  gpu-cluster:cluster:
    version: v1
    platform: device-plugin
"""
TYPOS: dict[str, tuple[str, str]] = {
    "confg": (STACK.replace("config", "confg"), r"confg \(line 1\): found the key confg; .*config"),
    "no config": ("runtime: python\n", r"found the keys runtime; wanted: config"),
    "clusters": (
        STACK.replace(":cluster:", ":clusters:"),
        r"\(line 2\): found the key gpu-cluster:clusters; .*write gpu-cluster:cluster in its place",
    ),
    "a tab": (STACK.replace("    version", "\tversion"), r"\(line 3\): found a tab; .*blanks"),
    "an odd indentation": (
        STACK.replace("    platform", "   platform"),
        r"\(line 4\): found a line that is indented as none above it",
    ),
    "a full-width colon": (
        STACK.replace("version:", "version\uff1a"),
        r"\(line 3\): found a full-width colon",
    ),
    "a second colon": (
        STACK.replace("v1", "v1: beta"),
        r"\(line 3\): found a second colon in one value",
    ),
    "an open bracket": (f"{STACK}    pools: [\n", r"found a list \[ or a mapping { that isn't"),
    "an open quote": (f'{STACK}    name: "gpu\n', r"found a quote that isn't closed"),
    "a key without a colon": (
        STACK.replace("version: v1", "version v1"),
        r"\(line \d\): found a (key without|second) a? ?colon",
    ),
}
FACTS: dict[str, tuple[dict[str, Any], str]] = {
    "engine missing": ({"containerd": None}, "no containerd"),
    "K3s not declared": (
        {"containerd": None, "distributions": ("k3s",)},
        "no containerd, but k3s; wanted: .*; cure: declare runtime.engine: k3s",
    ),
    "RKE2 not declared": (
        {"containerd": None, "distributions": ("rke2",)},
        "no containerd, but rke2; wanted: .*; cure: declare runtime.engine: rke2",
    ),
    "CRI-O not declared": (
        {"containerd": None, "crio": "1.34.1"},
        "no containerd, but cri-o; wanted: .*; cure: declare runtime.engine: cri-o",
    ),
    "k0s": ({"containerd": None, "foreign": ("k0s",)}, "k0s, with its own container engine"),
    "MicroK8s": (
        {"containerd": None, "foreign": ("snap-microk8s",)},
        "snap-microk8s, with its own container engine",
    ),
    "Jetson": (
        {"nvidia_devices": 0, "tegra": "NVIDIA Jetson AGX Orin Developer Kit"},
        "NVIDIA Jetson AGX Orin Developer Kit, whose GPU is on no PCI bus",
    ),
    "an image of bootc": ({"image": "bootc, composefs"}, r".*an image \(bootc, composefs\)"),
    "slow nvidia-smi": (
        {"nvidia_smi": "124 "},
        "nvidia-smi that does not respond within 5 s; wanted: .*persistence mode",
    ),
    "infoROM": (
        {"nvidia_smi": "14 WARNING: infoROM is corrupted at gpu 0000:65:00.0"},
        "a GPU with a corrupted infoROM",
    ),
    "engine too old": ({"containerd": "1.4.13"}, r"containerd 1\.4\.13"),
    "engine of another text": ({"containerd": UNREAD}, "containerd without a version"),
    "toolkit missing": ({"toolkit": None}, "no nvidia-ctk"),
    "toolkit of another text": ({"toolkit": UNREAD}, "nvidia-ctk without a version"),
    "lock of dpkg": (
        {"package_lock": "/var/lib/dpkg/lock-frontend"},
        "/var/lib/dpkg/lock-frontend held",
    ),
    "lock of rpm": ({"package_lock": "/var/lib/rpm/.rpm.lock"}, r"/var/lib/rpm/\.rpm\.lock held"),
    "disk full": ({"disk_free_mib": 3}, "3 MiB free in /var/lib"),
    "clock behind": ({"skew": -3600.0}, "a clock 3600 s behind"),
    "clock ahead": ({"skew": 90.0}, "a clock 90 s ahead"),
    "no driver": ({"driver": None}, "no NVIDIA driver loaded"),
    "nouveau": ({"loaded": ("nouveau",)}, "module nouveau loaded"),
    "a reboot pending": ({"reboot_required": True}, "a reboot pending"),
    "another system": ({"os": "plan9", "os_name": "Plan 9"}, "operating system Plan 9"),
    "another processor": ({"arch": "riscv64"}, "architecture riscv64"),
    "seven GPUs": ({"nvidia_devices": 7}, "7 NVIDIA PCI devices"),
    "cgroup v1": ({"cgroup": 1}, "cgroup v1"),
}
KEYS: dict[str, tuple[Callable[[], str], str]] = {
    "a public key as private key": (
        lambda: asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode(),
        "stage private key: the SSH private key can't be read: .*; wanted: .*; cure: `ssh-keygen",
    ),
    "a private key with a passphrase": (
        lambda: (
            asyncssh.generate_private_key("ssh-ed25519")
            .export_private_key("pkcs8-pem", passphrase="secret")
            .decode()
        ),
        "stage private key: the SSH private key can't be read: Passphrase must be",
    ),
}


def _messages(table: dict[str, Any]) -> list[Any]:
    marks = pytest.mark.logins
    return [pytest.param(name, id=name, marks=marks("message", name)) for name in table]


@pytest.mark.promise(
    "A typo in a stack file is named with its line, what was found, and what to write in its place."
)
@pytest.mark.parametrize("name", _messages(TYPOS))
def test_a_typo_is_named_in_the_first_lines(name: str, tmp_path: Path) -> None:
    text, counts = TYPOS[name]
    path = tmp_path / "Pulumi.lab.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load_stack_file(path)
    assert lines_before(counts, str(raised.value)) <= 3
    assert "found found" not in str(raised.value)
    assert not re.search(r"<block|<stream", str(raised.value))


@pytest.mark.parametrize("name", _messages(FACTS))
def test_what_a_host_lacks_is_named_in_the_first_lines(name: str) -> None:
    facts, counts = FACTS[name]
    cluster, host = declared(version="595.91.07")
    faults = validate_host(desired_host(cluster, host), dataclasses.replace(GOOD, **facts))
    assert lines_before(f"found {counts}.*", str(FaultError(*faults))) <= 3
    assert all(fault.cure for fault in faults)


@pytest.mark.parametrize("name", _messages(KEYS))
def test_a_key_that_cannot_be_used_is_named_in_the_first_lines(name: str) -> None:
    key, counts = KEYS[name]
    cluster, host = declared(version="595.91.07")
    desired = desired_host(cluster, host)
    facts = asyncio.run(observe_hosts([desired.target], key(), 5))[host.name]
    faults = validate_host(desired, facts)
    assert lines_before(f"found .*{counts}.*", str(FaultError(*faults))) <= 3
    assert all(fault.cure for fault in faults)


@pytest.mark.promise(
    "A host whose engine belongs to other software gets one error about its engine."
)
@pytest.mark.parametrize(
    "facts",
    [
        {"containerd": None, "distributions": ("k3s",)},
        {"containerd": None, "foreign": ("k0s",)},
        {"containerd": None, "foreign": ("snap-microk8s",)},
    ],
)
def test_an_engine_of_other_software_is_one_error(facts: dict[str, Any]) -> None:
    cluster, host = declared(version="595.91.07")
    faults = validate_host(desired_host(cluster, host), dataclasses.replace(GOOD, **facts))
    assert len([fault for fault in faults if fault.severity is FaultSeverity.ERROR]) == 1


def test_a_corrupted_inforom_stops_no_run() -> None:
    cluster, host = declared(version="595.91.07")
    smi = "14 WARNING: infoROM is corrupted at gpu 0000:65:00.0"
    facts = dataclasses.replace(GOOD, nvidia_smi=smi)
    (fault,) = validate_host(desired_host(cluster, host), facts)
    assert fault.severity is FaultSeverity.WARNING


@pytest.mark.logins("message", "no folder of charts")
def test_a_missing_folder_of_charts_has_no_cure_of_the_network() -> None:
    wanted = WantedChart(chart="gpu-operator", version="v1", place="no-such-folder/gpu-operator")
    (fault,) = _check_chart(wanted, "no such folder")
    assert lines_before("found no such folder; .*cure: correct charts.directory", str(fault)) == 0
