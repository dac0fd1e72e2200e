"""Warnings about hardware and firmware settings that affect GPU jobs. Pure functions.

The input is the output of the host probe (`HostFacts.gpus`, `rdma`, `memory`, `rows`). A value that
the probe did not report clearly counts as unknown and causes no warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpu_cluster.base.compatibility import version
from gpu_cluster.host_facts import HostFacts
from gpu_rules.faults import Fault, FaultSeverity
from gpu_rules.printable import shortened

# Maximum number of hosts that one warning names; the rest are only counted.
NAMED = 5
# Linux 5.12 with open kernel modules gives RDMA devices access to GPU memory without nvidia-peermem
# (NVIDIA GPU Operator documentation, "GPUDirect RDMA", DMA-BUF).
DMA_BUF = (5, 12)
_GPU = re.compile(
    r"(?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<width>\d{1,2}|-) "
    r"(?P<widest>\d{1,2}|-) (?P<speed>\d{1,3}(\.\d)?|-|Unknown) "
    r"(?P<fastest>\d{1,3}(\.\d)?|-|Unknown) (?P<numa>-?\d{1,4}|-) "
    r"(?P<iommu>[A-Za-z-]{1,16}) (?P<acs>\d{1,4}|-)"
)
_TRUTH = {"yes": True, "1": True, "no": False, "0": False}


@dataclass(frozen=True)
class Gpu:
    """A GPU on the PCI bus; a field is None if its value is unknown.

    Attributes:
        address: PCI domain, bus, device and function.
        width: Current number of PCIe lanes.
        widest: Largest number of PCIe lanes.
        speed: Current link speed in GT/s; an idle GPU lowers it.
        fastest: Highest link speed in GT/s.
        numa: NUMA node; -1 if the firmware names none.
        iommu: Type of the IOMMU group (`identity`, `DMA`, `DMA-FQ`). Empty without an IOMMU.
        acs: Number of bridges above the GPU that redirect peer-to-peer traffic.
    """

    address: str
    width: int | None
    widest: int | None
    speed: str
    fastest: str
    numa: int | None
    iommu: str
    acs: int | None


def gpus(facts: HostFacts) -> list[Gpu]:
    """Return the GPUs that the host probe reported; skip lines with an unexpected format."""
    matches = filter(None, map(_GPU.fullmatch, facts.gpus))
    return [
        Gpu(
            address=gpu_match["address"],
            width=_parse_number(gpu_match["width"]),
            widest=_parse_number(gpu_match["widest"]),
            speed=gpu_match["speed"],
            fastest=gpu_match["fastest"],
            numa=_parse_number(gpu_match["numa"]),
            iommu="" if gpu_match["iommu"] == "-" else gpu_match["iommu"],
            acs=_parse_number(gpu_match["acs"]),
        )
        for gpu_match in matches
    ]


def _parse_number(text: str) -> int | None:
    return None if text == "-" else int(text)


def _parse_truths(lines: tuple[str, ...], column: int, words: Mapping[str, bool]) -> list[bool]:
    """Return the boolean values in a column of nvidia-smi's output; skip values like `[N/A]`."""
    rows = (line.split(",") for line in lines)
    values = (row[column].strip().lower() for row in rows if len(row) > column)
    return [words[value] for value in values if value in words]


def _read_ecc(facts: HostFacts) -> list[bool]:
    return _parse_truths(facts.memory, 1, {"enabled": True, "disabled": False})


def cells(facts: HostFacts) -> tuple[str, str, str, str]:
    """Return a host's PCIe, ECC, RDMA and IOMMU cells of the hosts' table; `-`: unknown or none."""
    host_gpus, ecc = gpus(facts), _read_ecc(facts)
    links = sorted({f"x{gpu.width} {gpu.speed} GT/s" for gpu in host_gpus if gpu.width})
    states = [line.split()[1:] for line in facts.rdma]
    active = sum("ACTIVE" in state for state in states)
    groups = sorted({gpu.iommu for gpu in host_gpus if gpu.iommu})
    return (
        ", ".join(links[:3]) or "-",
        f"{sum(ecc)} of {len(ecc)}" if ecc else "-",
        f"{active} of {len(states)} up" if states else "-",
        ", ".join(groups) or "-",
    )


def warnings(hosts: Mapping[str, HostFacts]) -> list[Fault]:
    """Return the hardware warnings; hosts with the same problem share one warning."""
    hosts_by_advice: dict[tuple[str, str, str], list[str]] = {}
    for name, facts in hosts.items():
        if not facts.error:
            for text in (
                *_check_links(facts),
                *_check_memory(facts),
                *_check_peers(facts),
                *_check_processors(facts),
            ):
                hosts_by_advice.setdefault(text, []).append(name)
    return [
        Fault(place(names), has, wanted, cure, FaultSeverity.WARNING)
        for (has, wanted, cure), names in hosts_by_advice.items()
    ]


def place(names: list[str]) -> str:
    """Return host names as messages show them, such as `hosts gpu-1, gpu-2`."""
    return f"host{'s' if names[1:] else ''} {shortened(names, NAMED)}"


Text = tuple[str, str, str]


def _check_links(facts: HostFacts) -> Iterator[Text]:
    """Yield a warning for each GPU with fewer PCIe lanes than it supports.

    The link's speed is ignored, because an idle GPU lowers it.
    """
    for gpu in gpus(facts):
        # Zero lanes mean that there is no link, so nothing is known (Linux,
        # drivers/pci/pci-sysfs.c).
        if gpu.width and gpu.widest and gpu.width < gpu.widest:
            yield (
                f"GPU {gpu.address} with {gpu.width} of {gpu.widest} PCIe lanes",
                "all of them: copies to and from the GPU are slower by as much",
                "check the slot, its riser and its bifurcation in the firmware",
            )


def _check_memory(facts: HostFacts) -> Iterator[Text]:
    ecc = _read_ecc(facts)
    if False in ecc:
        yield (
            f"ECC off on {ecc.count(False)} of {len(ecc)} GPUs",
            "ECC on: otherwise a flipped bit changes results without an error",
            "`nvidia-smi -e 1` on the host, and a reboot",
        )
    if True in _parse_truths(facts.rows, 1, _TRUTH):
        yield (
            "remapped rows of GPU memory that need a reset",
            "no pending reset: until the reset the faulty rows are in use",
            "drain the node and reboot its host (NVIDIA, GPU memory error management)",
        )
    if True in _parse_truths(facts.rows, 2, _TRUTH):
        yield (
            "a GPU whose faulty memory rows can't be remapped any more",
            "a GPU that can still remap rows: jobs on this GPU will fail",
            "have the GPU replaced (NVIDIA, GPU memory error management)",
        )


def _check_peers(facts: HostFacts) -> Iterator[Text]:
    """Yield warnings about slow traffic between GPUs, or between GPUs and the network."""
    host_gpus = gpus(facts)
    if any(gpu.iommu.startswith("DMA") for gpu in host_gpus):
        yield (
            "an IOMMU that translates what GPUs send",
            "passthrough: PCIe traffic between GPUs or to the network is slow, or hangs",
            "boot with iommu=pt, or turn it off in the firmware (NCCL, troubleshooting)",
        )
    if len(host_gpus) > 1 and any(gpu.acs for gpu in host_gpus):
        yield (
            "PCIe bridges that redirect peers' traffic to the root (ACS)",
            "no redirection: it makes traffic between GPUs or to the network slow",
            "turn ACS off in the firmware or by setpci at each boot (NCCL, troubleshooting)",
        )
    states = [line.split()[1:] for line in facts.rdma]
    if states and not any("ACTIVE" in state for state in states):
        yield (
            f"{len(states)} RDMA devices without an active link",
            "active links: NCCL takes TCP in their place, many times slower",
            "check the cables, the switch and its subnet manager (`ibstat`)",
        )
    elif states and facts.driver and not facts.peermem and not _dma_buf(facts):
        yield (
            "RDMA devices, and nothing that gives them GPU memory",
            "nvidia-peermem, or open modules on Linux 5.12: GPUDirect RDMA is off, silently",
            "declare system.modules: [nvidia-peermem], or driver.kernelModuleType: open",
        )


def _dma_buf(facts: HostFacts) -> bool:
    return facts.open_modules and version(facts.kernel) >= DMA_BUF


def _check_processors(facts: HostFacts) -> Iterator[Text]:
    if facts.nvidia_devices and facts.governor == "powersave":
        yield (
            "the frequency governor powersave",
            "performance: launches of kernels and the loading of data wait for the processor",
            "`cpupower frequency-set -g performance`, or the firmware's power profile",
        )
    nodes = facts.numa not in ("-", "0")
    if nodes and any(gpu.numa == -1 for gpu in gpus(facts)):
        yield (
            f"GPUs without a NUMA node on a host with nodes {facts.numa}",
            "a node for each: kubelet's topology manager can't align processors with them",
            "look for NUMA or SRAT in the firmware, or in what the hypervisor passes on",
        )
