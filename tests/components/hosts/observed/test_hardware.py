"""Hardware and firmware facts: read with bounds, reported as advice, unknown if unclear."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.observed import hardware
from gpu_cluster.hosts.observed.probe import DEVICES, parse
from gpu_cluster.hosts.observed.table import HEAD
from gpu_cluster.inspection.judgement import Seen, judged
from gpu_cluster.loading.loader import load
from tests.fixtures.documents import document
from tests.fixtures.probed import Machine

GPU = "0000:17:00.0"
ROOT = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0"
GOOD = f"{GPU} 16 16 32.0 32.0 0 identity 0"


@pytest.fixture(params=["dash", "bash"])
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Machine:
    return Machine(tmp_path, request.param)


def registers(control: int) -> bytes:
    """Return 4,096 bytes of a PCI bridge's registers; its second extended capability is ACS."""
    space = bytearray(4096)
    space[0x100:0x104] = (0x0001_0001 | 0x148 << 20).to_bytes(4, "little")
    space[0x148:0x14C] = (0x0001_000D).to_bytes(4, "little")
    space[0x14E:0x150] = control.to_bytes(2, "little")
    return bytes(space)


def gpu(machine: Machine, **values: str) -> None:
    """Create a GPU below two PCI bridges, in the form of sysfs."""
    values = {
        "vendor": "0x10de", "class": "0x030200", "current_link_width": "8", "max_link_width": "16",
        "current_link_speed": "2.5 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe",
        "numa_node": "-1", "iommu_group/type": "DMA-FQ", **values,
    }  # fmt: skip
    for name, text in values.items():
        machine.file(f"{ROOT}/{GPU}/{name}", f"{text}\n")
    for bridge, control in ((ROOT, 0x1D), (ROOT.rpartition("/")[0], 0x01)):
        machine.file(f"{bridge}/config", "").write_bytes(registers(control))
    folder = machine.root / "sys/bus/pci/devices"
    folder.mkdir(parents=True)
    (folder / GPU).symlink_to(machine.root / ROOT / GPU)


def test_a_gpu_is_told_as_the_kernel_shows_it(machine: Machine) -> None:
    gpu(machine)
    assert machine.single("gpu") == f"{GPU} 8 16 2.5 32.0 -1 DMA-FQ 1"


def test_what_cannot_be_read_is_unknown(machine: Machine) -> None:
    gpu(machine)
    for name in ("current_link_width", "max_link_width", "numa_node", "iommu_group/type"):
        (machine.root / ROOT / GPU / name).unlink()
    # Users other than root can read only the first 64 bytes.
    (machine.root / ROOT / "config").write_bytes(b"\0" * 64)
    assert machine.single("gpu") == f"{GPU} - - 2.5 32.0 - - -"
    assert hardware.warnings({"a": parse(machine.lines())}) == []


def test_processors_and_their_memory_are_told_as_the_kernel_shows_them(machine: Machine) -> None:
    assert (machine.single("governor"), machine.single("numa")) == ("-", "-")
    machine.file("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
    machine.file("sys/devices/system/node/online", "0-1\n")
    assert (machine.single("governor"), machine.single("numa")) == ("powersave", "0-1")


# UEFI specification 2.10, GetVariable: four bytes of attributes (here 6), then the value.
@pytest.mark.parametrize(("value", "is_on"), [(b"\1", True), (b"\0", False), (b"", None)])
def test_secure_boot_is_told_as_the_firmware_has_it(
    machine: Machine, value: bytes, is_on: bool | None
) -> None:
    assert parse(machine.lines()).secure_boot is None
    name = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    machine.file(f"sys/firmware/efi/efivars/{name}", "").write_bytes(b"\6\0\0\0" + value)
    assert parse(machine.lines()).secure_boot is is_on


def test_nvidia_smi_is_asked_for_memory_and_its_silence_is_no_claim(machine: Machine) -> None:
    machine.file(
        "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module  1.2.3\n"
    )
    machine.script(
        "nvidia-smi",
        "case $1 in --query-gpu*) echo '00000000:17:00.0, Enabled'; echo 'No devices' ;; "
        "*) echo '00000000:17:00.0, No, Yes'; sleep 0.2 ;; esac",
    )
    facts = parse(machine.lines())
    assert facts.memory == ("00000000:17:00.0, Enabled",)
    assert facts.rows == ("00000000:17:00.0, No, Yes",)
    assert facts.open_modules
    machine.script("nvidia-smi", "exit 9")
    assert parse(machine.lines()).memory == ()


def test_ports_of_rdma_devices_are_told_and_those_of_nvswitches_are_not(machine: Machine) -> None:
    machine.file("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n")
    machine.file("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n")
    machine.file("sys/class/infiniband/mlx5_2/ports/1/state", "4: ACTIVE\n")
    machine.file("sys/class/infiniband/mlx5_2/device/vpd", "SW_MNG")
    machine.file("sys/module/nvidia_peermem/refcnt", "0\n")
    facts = parse(machine.lines())
    assert facts.rdma == ("mlx5_0 ACTIVE", "mlx5_1 DOWN")
    assert facts.peermem


def test_nvswitches_are_counted_on_the_bus_whatever_modules_are_loaded(machine: Machine) -> None:
    for number, (vendor, kind, data) in enumerate(
        (
            ("0x10de", "0x068000", ""),
            ("0x15b3", "0x020700", "SMDL=SW_MNG"),
            ("0x15b3", "0x020000", "SMDL=SW_MNG"),
            ("0x15b3", "0x020700", "MCX75310AAS-NEAT"),
        )
    ):
        device = f"sys/bus/pci/devices/0000:0{number}:00.0"
        machine.file(f"{device}/vendor", f"{vendor}\n")
        machine.file(f"{device}/class", f"{kind}\n")
        machine.file(f"{device}/vpd", data)
    facts = parse(machine.lines())
    assert (facts.nvswitches, facts.fabric.split()) == (3, ["absent"])


def facts(**changes: Any) -> HostFacts:
    healthy = HostFacts(nvidia_devices=1, driver="580.1", kernel="6.8.0", numa="0-1", gpus=(GOOD,))
    return dataclasses.replace(healthy, **changes)


OTHER = GOOD.replace("17", "18", 1)
ADVICE: dict[str, tuple[HostFacts, str]] = {
    "lanes": (facts(gpus=(GOOD.replace("16", "8", 1),)), "with 8 of 16 PCIe lanes"),
    "ecc": (facts(memory=("0, Disabled", "1, Enabled")), "ECC off on 1 of 2 GPUs"),
    "pending": (facts(rows=("0, Yes, No",)), "need a reset"),
    "failed": (facts(rows=("0, 0, 1",)), "can't be remapped"),
    "iommu": (facts(gpus=(GOOD.replace("identity", "DMA"),)), "an IOMMU that translates"),
    "acs": (facts(gpus=(f"{GOOD[:-1]}2", OTHER)), "(ACS)"),
    "links": (facts(rdma=("mlx5_0 DOWN",)), "1 RDMA devices without an active link"),
    "peermem": (facts(rdma=("mlx5_0 ACTIVE",)), "nothing that gives them GPU memory"),
    "governor": (facts(governor="powersave"), "the frequency governor powersave"),
    "numa": (facts(gpus=(GOOD.replace(" 0 ", " -1 ", 1),)), "GPUs without a NUMA node"),
}


@pytest.mark.parametrize("case", ADVICE)
def test_each_finding_is_one_piece_of_advice_with_what_it_breaks(case: str) -> None:
    result, text = ADVICE[case]
    (fault,) = hardware.warnings({"a": result})
    assert text in fault.found
    assert fault.wanted
    assert fault.cure


SILENT = {
    "all well": facts(),
    "unknown": facts(gpus=(f"{GPU} - - - - - - -",), memory=("0, [N/A]",), rows=("0, [N/A], ?",)),
    "one GPU has no peer": facts(gpus=(f"{GOOD[:-1]}2",)),
    "open modules give memory by dma-buf": facts(rdma=("mlx5_0 ACTIVE",), open_modules=True),
    "nvidia-peermem": facts(rdma=("mlx5_0 ACTIVE",), peermem=True),
    "no driver yet": facts(rdma=("mlx5_0 ACTIVE",), driver=None),
    "an idle link": facts(gpus=(GOOD.replace("32.0", "2.5", 1),)),
    "one NUMA node": facts(numa="0", gpus=(GOOD.replace(" 0 ", " -1 ", 1),)),
    "no GPU": facts(nvidia_devices=0, gpus=(), governor="powersave"),
    "not reached": facts(error="no answer", governor="powersave"),
    "nonsense": facts(gpus=("x" * 999, f"{GOOD} more", ""), rows=("", ",,,"), memory=("\x1b[2J",)),
}


@pytest.mark.parametrize("case", SILENT)
def test_nothing_is_said_of_what_is_well_or_unknown(case: str) -> None:
    assert hardware.warnings({"a": SILENT[case]}) == []


def test_hosts_with_the_same_finding_share_one_line() -> None:
    many = {f"gpu-{n}": facts(governor="powersave") for n in range(8)}
    (fault,) = hardware.warnings(many)
    assert fault.place == "hosts gpu-0, gpu-1, gpu-2, gpu-3, gpu-4 and 3 more"


def test_a_host_that_tells_of_many_devices_is_cut() -> None:
    lines = [f"gpu=0000:{n % 256:02x}:00.0 8 16 1 1 0 - -" for n in range(500)]
    assert len(parse(lines).gpus) == DEVICES


def test_the_table_shows_them_and_advice_never_stops_a_run() -> None:
    host = facts(memory=("0, Enabled",), rdma=("mlx5_0 DOWN",))
    assert hardware.cells(host) == ("x16 32.0 GT/s", "1 of 1", "0 of 1 up", "identity")
    assert HEAD[-4:] == ("PCIe", "ECC", "RDMA", "IOMMU")
    result = judged(resolve(load(document()), "dev"), Seen(hosts={"other": host}))
    assert result.problems == ()
    assert any("RDMA devices" in warning for warning in result.warnings)


ONE_GPU = (
    "memory=00000000:00:06.0, Enabled",
    "rows=00000000:00:06.0, No, No",
    "os=ubuntu",
    "os_version=24.04",
    "nvidia_devices=1",
    "nvswitches=0",
    "gpu=0000:00:06.0 16 16 32.0 32.0 -1 - -",
    "open_modules=yes",
    "governor=-",
    "numa=0",
    "driver=580.159.04",
    "containerd=",
    "secure_boot=",
    "cgroup=2",
)
"""The probe's lines of virtual machines with one H100 or H200, driver 580.159.04, Ubuntu 24.04."""


def test_what_a_host_with_one_h100_printed_is_read_without_a_warning() -> None:
    facts = parse(ONE_GPU)
    assert (facts.driver, facts.containerd, facts.nvidia_devices) == ("580.159.04", None, 1)
    assert hardware.cells(facts) == ("x16 32.0 GT/s", "1 of 1", "-", "-")
    assert hardware.warnings({"gpu-1": facts}) == []


def test_what_a_host_with_one_h200_printed_is_read_without_a_warning() -> None:
    uuid = "GPU-11111111-2222-3333-4444-555555555555"
    facts = parse(
        ["installed=", *ONE_GPU, "os_name=Ubuntu 24.04.3 LTS", f"uuid={uuid}", "foreign="]
    )
    assert (facts.driver, facts.nvidia_devices, facts.uuids) == ("580.159.04", 1, (uuid,))
    assert hardware.cells(facts) == ("x16 32.0 GT/s", "1 of 1", "-", "-")
    assert hardware.warnings({"gpu-1": facts}) == []


def test_the_state_of_the_hosts_own_imex_daemon_is_read(machine: Machine) -> None:
    assert parse(machine.lines()).imex == ""
    machine.script("nvidia-imex", "exit 0")
    machine.script("systemctl", "case $* in 'is-active nvidia-imex') echo active ;; esac")
    assert parse(machine.lines()).imex == "active"
