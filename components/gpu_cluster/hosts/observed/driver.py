"""Detect faults of a host's NVIDIA driver from the facts that the host probe reported.

All functions are pure.

If the stack's host preparation replaces the driver, a fault of the old driver is only a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.observed.hardware import gpus
from gpu_cluster.settings.hosts.driver import FabricManager
from gpu_rules.faults import Fault, FaultSeverity
from gpu_rules.printable import printable, shortened

_BROKEN_LINK = 63
"""Number of PCIe lanes that a GPU seems to have if all bits of its registers read as 1.

All bits read as 1 if the device fell off the bus (Linux, include/linux/pci.h,
PCI_ERROR_RESPONSE); the field of the link's width has six bits (pci_regs.h, PCI_EXP_LNKSTA_NLW).
"""
TIMED_OUT = 124
"""Exit status of timeout(1)."""
_CORRUPTED_INFOROM = "14"
"""Exit status of nvidia-smi, which lists all GPUs all the same (nvidia-smi(1), "Return value").

NVIDIA GPU Operator documentation, "Troubleshooting": the operator's validator fails then.
"""
NAMED = 4
"""Maximum number of GPUs that one message names; further GPUs are only counted."""

_WORDS = (
    (
        "version mismatch",
        "both of one version",
        "drain its node and reboot the host, which then loads the installed module; an upgrade "
        "has replaced the library under the loaded module, so hold the driver's packages",
    ),
    (
        "couldn't communicate with the nvidia driver",
        "a module that responds",
        "check `dmesg` and `dkms status`, then load it with `modprobe nvidia`",
    ),
    (
        "no devices were found",
        "GPUs that the module can drive",
        "check `dmesg | grep NVRM`: open modules need Turing or later, and a GPU that another "
        "driver (vfio-pci, nouveau) holds is not the module's",
    ),
    (
        "is lost",
        "GPUs that respond",
        "drain its node, reboot the host, and look for Xid 79 in `dmesg`; if it returns, check the "
        "GPU's power and seat and declare it in unhealthyDevices",
    ),
    (
        "unable to determine the device handle",
        "GPUs that respond",
        "drain its node, reboot the host, and look for Xid in `dmesg`; if it returns, declare the "
        "GPU in unhealthyDevices",
    ),
    (
        "blocked by the operating system",
        "devices that root may open",
        "check the limits of the hypervisor or of WSL for GPU devices",
    ),
    (
        "insufficient permissions",
        "devices that root may open",
        "check the modes of /dev/nvidia* and NVreg_DeviceFileMode in /etc/modprobe.d",
    ),
)
"""Parts of nvidia-smi's error messages in lower case, each with the desired state and the cure.

Source: nvidia-smi(1) and NVML's error texts (nvml.h, nvmlReturn_t), as quoted in
NVIDIA/nvidia-container-toolkit issue 394 and the documents of NVIDIA's Xid errors.
"""


def validate_driver(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    """Yield the faults of the driver on a host with GPUs."""
    yield from _check_nvidia_smi(host, facts)
    yield from _check_lost_gpus(host, facts)
    yield from _check_vanished_gpus(host, facts)
    yield from _check_fabric_manager(host, facts)
    yield from _check_imex(host, facts)
    yield from _check_leftovers(host, facts)


def _host_fault(
    host: DesiredHost, found: str, wanted: str, cure: str, severity: FaultSeverity
) -> Fault:
    return Fault(f"host {host.name}", found, wanted, cure, severity)


def _driver_severity(host: DesiredHost) -> FaultSeverity:
    """Return ERROR for a driver that the stack does not replace, else WARNING."""
    driver = host.sections.driver
    mended = driver.by_preparation or driver.in_container
    return FaultSeverity.WARNING if mended else FaultSeverity.ERROR


def _check_nvidia_smi(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    status, _, output = facts.nvidia_smi.partition(" ")
    if not status:
        return
    if status == str(TIMED_OUT):
        cure = (
            "run `time nvidia-smi -L` on the host. If it ends late, turn persistence mode on "
            "(`nvidia-smi -pm 1`, unit nvidia-persistenced): without it each call starts all GPUs "
            "anew. If it doesn't end, check `dmesg | grep -e NVRM -e Xid`; a reset or a reboot "
            "recovers a GPU that hangs"
        )
        has = "nvidia-smi that does not respond within 5 s"
        yield _host_fault(host, has, "a response in 5 s", cure, FaultSeverity.WARNING)
        return
    if status == _CORRUPTED_INFOROM:
        cure = (
            "find the GPU that `nvidia-smi` names, and ask the board's vendor; the GPU Operator's "
            "validation accepts no such GPU"
        )
        has = "a GPU with a corrupted infoROM (nvidia-smi ends with 14)"
        wanted = "an intact infoROM: this one may lose the GPU's error counters and settings"
        yield _host_fault(host, has, wanted, cure, FaultSeverity.WARNING)
        return
    wanted, cure = next(
        ((wanted, cure) for words, wanted, cure in _WORDS if words in output.lower()),
        ("status 0", "run nvidia-smi on the host and check `dmesg | grep NVRM`"),
    )
    found = f'nvidia-smi that ends with {status}: "{printable(output.strip())}"'
    if "version mismatch" in output.lower() and facts.installed not in ("", facts.driver):
        found += f" (module {facts.driver} is loaded, {facts.installed} is installed)"
    yield _host_fault(host, found, wanted, cure, _driver_severity(host))


def lost(facts: HostFacts) -> tuple[str, ...]:
    """Return the PCI addresses of GPUs that no longer respond on the PCI bus.

    A GPU is lost if all bits of its registers read as 1, or if nvidia-smi lists only other GPUs.
    GPUs that are bound to vfio-pci don't use the NVIDIA driver and are skipped.
    """
    bound = {line.removeprefix("vfio-pci ") for line in facts.leftovers}
    answering = {_pci_address(line.partition(",")[0]) for line in facts.memory}
    return tuple(
        gpu.address
        for gpu in gpus(facts)
        if gpu.address not in bound
        and (
            gpu.width == _BROKEN_LINK or (answering and _pci_address(gpu.address) not in answering)
        )
    )


def _pci_address(text: str) -> str:
    """Return a PCI address with an eight-digit domain, as nvidia-smi prints it (sysfs: four)."""
    domain, _, bus_and_device = text.strip().lower().partition(":")
    return f"{domain.rjust(8, '0')[-8:]}:{bus_and_device}"


def _check_lost_gpus(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    gone = lost(facts)
    # The driver ignores excluded GPUs, so nvidia-smi doesn't list them.
    if len(gone) <= len(host.excluded_gpus):
        return
    least = facts.nvidia_devices if host.gpus is None else host.gpus
    enough = facts.nvidia_devices - len(gone) >= least
    yield _host_fault(
        host,
        f"GPU {shortened(list(gone), NAMED)} that does not respond to the driver",
        "GPUs that respond and are on the bus",
        "drain its node and reboot the host; look for Xid 79 (fallen off the bus) in `dmesg` and "
        "at the GPU's power and seat; if it stays away, declare it in unhealthyDevices",
        FaultSeverity.WARNING if enough else FaultSeverity.ERROR,
    )


def _check_vanished_gpus(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    """Yield a fault for an excluded UUID whose GPU was replaced by another GPU.

    The driver ignores an unknown UUID silently. That is right for a GPU that is off the PCI bus.
    But UUIDs also change when a board is replaced or a virtual machine is migrated cold; then the
    GPU with the new UUID runs pods although the stack file excludes the GPU.
    """
    are_uuids_known = bool(facts.uuids) and not any("?" in uuid for uuid in facts.uuids)
    gone = [uuid for uuid in host.excluded_gpus if uuid not in facts.uuids]
    least = host.gpus or 0
    serving = sum(uuid not in host.excluded_gpus for uuid in facts.uuids)
    if are_uuids_known and gone and serving > least:
        yield _host_fault(
            host,
            f"no GPU with the UUID {shortened(gone, NAMED)}, which unhealthyDevices names, and "
            f"{serving} other GPUs",
            f"{least} other GPUs" if least else "UUIDs of this host's GPUs",
            "compare with `nvidia-smi -L`: if the board was replaced or the machine was migrated, "
            "take the UUID out or write the new one",
            FaultSeverity.ERROR,
        )


def _check_fabric_manager(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    """Yield a fault if no fabric manager manages the host's NVSwitches, so CUDA programs fail.

    Source: Fabric Manager User Guide, "cudaErrorSystemNotReady" (802).
    """
    state, _, version = facts.fabric.partition(" ")
    driver = host.sections.driver
    off = driver.fabric_manager is FabricManager.OFF
    if not state or driver.in_container or driver.by_preparation or off or not facts.driver:
        return
    count = f"{facts.nvswitches} NVSwitches"
    wanted = f"a fabric manager {facts.driver} that runs: without it CUDA fails with error 802"
    name = f"nvidia-fabricmanager {facts.driver}"
    if state == "absent":
        cure = f"install {name}, or let driver.source: package do it"
        yield _host_fault(host, f"{count} and no fabric manager", wanted, cure, FaultSeverity.ERROR)
    elif version and version != facts.driver:
        cure = f"install {name} and restart the unit nvidia-fabricmanager"
        found = f"{count} and fabric manager {version} with driver {facts.driver}"
        yield _host_fault(host, found, wanted, cure, FaultSeverity.ERROR)
    elif state != "active":
        cure = (
            "`systemctl enable --now nvidia-fabricmanager`; if it fails, check "
            "`journalctl -u nvidia-fabricmanager`"
        )
        found = f"{count} and a fabric manager that is {state}"
        yield _host_fault(host, found, wanted, cure, FaultSeverity.ERROR)


def _check_imex(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    """Yield a fault if the host runs an IMEX daemon in addition to those of compute domains.

    Source: NVIDIA/aicr issue 2520 (NV_ERR_IN_USE, jobs hang); NVIDIA GPU Operator
    documentation, "DRA Driver for NVIDIA GPUs", prerequisites (the unit is disabled on all nodes).
    """
    if host.runs_imex and facts.imex in ("active", "activating"):
        declared = bool(host.sections.driver.imex_nodes)
        cure = "`systemctl disable --now nvidia-imex` and `systemctl mask nvidia-imex` on the host"
        yield _host_fault(
            host,
            "the unit nvidia-imex running, in addition to dra.computeDomains",
            "only the IMEX daemons that the DRA driver starts: with two of them GPUs are in use "
            "(NV_ERR_IN_USE) and jobs hang",
            f"remove driver.imexNodes; then {cure}" if declared else cure,
            FaultSeverity.ERROR,
        )


def _kept_out(host: DesiredHost, kind: str, file: str) -> Fault:
    """Return the fault about a setting that keeps NVIDIA's kernel modules from loading.

    Args:
        kind: `kept-out` if the modules never load; `not-at-boot` if no boot loads them.
        file: The file or the kernel command line parameter with that setting.
    """
    never = kind == "kept-out"
    cure = (
        "take it out of the kernel's command line"
        if file == "module_blacklist"
        else f"remove these lines from {file}, rebuild the initramfs"
    )
    return _host_fault(
        host,
        f"{file}, which keeps NVIDIA's kernel modules from loading"
        + ("" if never else " at a boot"),
        "modules that load: without them the host has no GPUs",
        f"{cure} and reboot the host",
        FaultSeverity.ERROR if never else FaultSeverity.WARNING,
    )


def _has_enough_gpus(host: DesiredHost, facts: HostFacts) -> bool:
    """Return True if a host has the declared GPUs without those that virtual machines use."""
    bound = sum(line.startswith("vfio-pci ") for line in facts.leftovers)
    return host.gpus is not None and len(gpus(facts)) - bound >= host.gpus


def _check_leftovers(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    in_container, writes_runtime = host.sections.driver.in_container, host.configures_runtime
    config = "/etc/nvidia-container-runtime/config.toml"
    for leftover in facts.leftovers:
        kind, _, detail = leftover.partition(" ")
        if kind == "no-cgroups" and writes_runtime and facts.runtime_mode != "cdi":
            yield _host_fault(
                host,
                f"no-cgroups = true in {config}",
                "false: otherwise containers are not allowed to open their GPUs",
                "`nvidia-ctk config --in-place --set nvidia-container-cli.no-cgroups=false`",
                FaultSeverity.ERROR,
            )
        elif kind == "root" and writes_runtime and not in_container:
            yield _host_fault(
                host,
                f'root = "{detail}" in {config}, of a driver container',
                "the host's own driver: containers get none of its libraries",
                "`nvidia-ctk config --in-place --set nvidia-container-cli.root=/`",
                FaultSeverity.ERROR,
            )
        elif kind == "ldconfig" and not in_container and facts.runtime_mode != "cdi":
            # The toolkit takes ldconfig.real where there is one (NVIDIA/nvidia-container-toolkit,
            # internal/config/config.go, NormalizeLDConfigPath).
            yield _host_fault(
                host,
                f'ldconfig = "@{detail}" in {config}, of a driver container',
                "the host's own ldconfig: containers don't start without it",
                "`nvidia-ctk config --in-place --set "
                "nvidia-container-cli.ldconfig=@/sbin/ldconfig`",
                FaultSeverity.ERROR,
            )
        elif kind == "operator-toolkit" and writes_runtime and not in_container:
            yield _host_fault(
                host,
                "the GPU Operator's toolkit in /usr/local/nvidia/toolkit",
                "the host's own toolkit alone",
                "remove that folder and the runtime that names it in the engine's configuration, "
                "unless an operator still runs here",
                FaultSeverity.WARNING,
            )
        elif kind == "vfio-pci" and not in_container and not _has_enough_gpus(host, facts):
            yield _host_fault(
                host,
                f"GPU {detail} bound to vfio-pci, for virtual machines",
                "NVIDIA's driver: containers don't get this GPU",
                "take its ID out of vfio-pci.ids (command line of the kernel, /etc/modprobe.d) and "
                "reboot the host, or lower gpusPerNode to the GPUs that NVIDIA's driver has",
                FaultSeverity.ERROR,
            )
        elif kind in ("kept-out", "not-at-boot") and not in_container:
            yield _kept_out(host, kind, detail)
        elif kind == "runfile" and detail:
            yield _host_fault(
                host,
                f"a driver by runfile (nvidia-uninstall) and the driver's package {detail}",
                "only one of them: each replaces the other's libraries at its next upgrade",
                "run `nvidia-uninstall` and reinstall the packages, or remove the packages",
                _driver_severity(host),
            )
    if facts.driver_container and not in_container:
        yield _host_fault(
            host,
            "a driver container's root in /run/nvidia/driver",
            f"the host's own driver alone, as driver.source {host.sections.driver.source} says",
            "remove the container (label nvidia.com/gpu.deploy.driver=false) and reboot the host, "
            "or declare driver.source: operator",
            FaultSeverity.WARNING,
        )
