"""The common faults of an NVIDIA driver are reported before a change, each with its cure.

The error messages are from nvidia-smi, or from the issue that a comment cites.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.observed.driver import lost, validate_driver
from gpu_cluster.hosts.phases import preparation_disrupts
from gpu_cluster.hosts.steps.driver import STEP
from gpu_cluster.settings.hosts.driver import DriverSettings
from gpu_cluster.settings.hosts.packages import PackagesSettings
from gpu_rules.faults import Fault, FaultSeverity
from tests.desired_host import desired_host
from tests.fixtures.clusters import cluster
from tests.proofs.hosts.declared import plain

DRIVER = "570.133.20"
GOOD = HostFacts(driver=DRIVER, nvidia_devices=8)


def host(**driver: object) -> DesiredHost:
    """Return a host with default settings and these driver settings."""
    settings = DriverSettings.model_validate(driver)
    sections = plain().sections.model_copy(update={"driver": settings})
    return replace(plain(), sections=sections, configures_runtime=True)


@pytest.mark.parametrize("remove", [True, False])
def test_a_driver_that_goes_with_its_packages_while_the_host_has_gpus_is_refused(
    remove: bool,
) -> None:
    packages = PackagesSettings(remove=remove)
    declared = host(source="package", version=DRIVER)
    facts = replace(GOOD, disrupts={"prepare": preparation_disrupts(declared)})

    def texts(each: DesiredHost) -> list[str]:
        sections = each.sections.model_copy(update={"packages": packages})
        return [str(one) for one in STEP.judge(replace(each, sections=sections), facts)]

    assert any("no longer declared" in text for text in texts(host())) == remove
    assert not any("no longer declared" in text for text in texts(declared))
    assert not any("no longer declared" in text for text in texts(host(source="operator")))


def found(facts: HostFacts, **driver: object) -> list[Fault]:
    return list(validate_driver(host(**driver), facts))


MISMATCH = (
    "18 Failed to initialize NVML: Driver/library version mismatch NVML library version: 580.65"
)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        # NVIDIA/nvidia-container-toolkit issue 394.
        (MISMATCH, "drain its node and reboot the host"),
        (
            "9 NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make "
            "sure that the latest NVIDIA driver is installed and running.",
            "dkms status",
        ),
        ("6 No devices were found", "Turing or later"),
        (
            "15 Unable to determine the device handle for GPU0000:82:00.0: GPU is lost.  Reboot "
            "the system to recover this GPU",
            "Xid 79",
        ),
        (
            "255 Unable to determine the device handle for GPU1: 0000:3D:00.0: Unknown Error",
            "unhealthyDevices",
        ),
        ("4 Failed to initialize NVML: Insufficient Permissions", "/dev/nvidia*"),
        ("255 Failed to initialize NVML: Unknown Error", "dmesg"),
    ],
)
@pytest.mark.promise("A preinstalled driver whose nvidia-smi fails is named before a change.")
def test_the_words_of_nvidia_smi_are_shown_with_a_cure(said: str, words: str) -> None:
    (fault,) = found(replace(GOOD, nvidia_smi=said))
    assert fault.severity is FaultSeverity.ERROR
    assert said.partition(" ")[2][:60] in str(fault)
    assert words in str(fault)


def test_a_mismatch_names_both_versions() -> None:
    (fault,) = found(replace(GOOD, nvidia_smi=MISMATCH, installed="580.65.06"))
    assert f"module {DRIVER} is loaded, 580.65.06 is installed" in str(fault)


@pytest.mark.parametrize("source", ["operator", "package"])
def test_a_driver_that_this_stack_replaces_stops_no_run(source: str) -> None:
    version = {"version": "580.65.06"} if source == "package" else {}
    (fault,) = found(replace(GOOD, nvidia_smi=MISMATCH), source=source, **version)
    assert fault.severity is FaultSeverity.WARNING


def test_nvidia_smi_that_hangs_is_a_warning() -> None:
    (fault,) = found(replace(GOOD, nvidia_smi="124 "))
    assert fault.severity is FaultSeverity.WARNING
    assert "that does not respond" in str(fault)


def bus(number: int, width: str = "16") -> str:
    """Return the line that the host probe prints about a GPU at this PCI bus number."""
    return f"0000:{number:02x}:00.0 {width} 16 16.0 32.0 0 - 0"


GPUS = tuple(bus(number) for number in range(16, 24))
MEMORY = tuple(f"00000000:{number:02X}:00.0, Enabled" for number in range(16, 24))


@pytest.mark.parametrize(
    ("gpus", "memory"),
    [
        # All bits of the GPU's registers read as 1, so the link seems to have 63 lanes.
        ((*GPUS[:7], bus(23, "63")), ()),
        # nvidia-smi does not list the GPU that fell off the bus.
        (GPUS, MEMORY[:7]),
    ],
)
def test_a_gpu_that_fell_off_the_bus_is_named(
    gpus: tuple[str, ...], memory: tuple[str, ...]
) -> None:
    facts = replace(GOOD, gpus=gpus, memory=memory)
    assert lost(facts) == ("0000:17:00.0",)
    (fault,) = found(facts)
    assert fault.severity is FaultSeverity.ERROR
    assert "0000:17:00.0 that does not respond to the driver" in str(fault)
    assert "off the bus" in str(fault)
    assert "unhealthyDevices" in str(fault)


def test_gpus_that_answer_or_are_excluded_are_no_fault() -> None:
    assert found(replace(GOOD, gpus=GPUS, memory=MEMORY)) == []
    assert found(replace(GOOD, gpus=GPUS)) == []  # nvidia-smi's list of GPUs is not known.
    bound = replace(GOOD, gpus=GPUS, memory=MEMORY[:7], leftovers=("vfio-pci 0000:17:00.0",))
    assert [fault for fault in found(bound) if "vfio-pci" not in str(fault)] == []
    excluded = replace(host(), excluded_gpus=("GPU-1",))
    assert list(validate_driver(excluded, replace(GOOD, gpus=GPUS, memory=MEMORY[:7]))) == []


@pytest.mark.parametrize(
    ("fabric", "words"),
    [
        ("absent ", "no fabric manager"),
        ("failed 570.133.20", "a fabric manager that is failed"),
        ("inactive 570.133.20", "a fabric manager that is inactive"),
        ("failed 570.172.08", "fabric manager 570.172.08 with driver 570.133.20"),
        ("active 570.172.08", "fabric manager 570.172.08 with driver 570.133.20"),
    ],
)
@pytest.mark.promise("NVSwitches without a fabric manager of the driver's version are named.")
def test_a_fabric_manager_that_does_not_serve_the_switches_is_named(
    fabric: str, words: str
) -> None:
    facts = replace(GOOD, nvswitches=4, fabric=fabric)
    (fault,) = found(facts)
    assert fault.severity is FaultSeverity.ERROR
    assert words in str(fault)
    assert "802" in str(fault)
    # Phase `prepare` installs the fabric manager with the driver; the GPU Operator's driver
    # container has its own fabric manager.
    assert found(facts, source="package", version=DRIVER) == []
    assert found(facts, source="operator") == []


def test_a_fabric_manager_that_serves_the_switches_is_no_fault() -> None:
    assert found(replace(GOOD, nvswitches=4, fabric=f"active {DRIVER}")) == []


@pytest.mark.parametrize(
    ("leftover", "words"),
    [
        ("no-cgroups", "nvidia-container-cli.no-cgroups=false"),
        ("root /run/nvidia/driver", "nvidia-container-cli.root=/"),
        ("ldconfig /run/nvidia/driver/sbin/ldconfig", "nvidia-container-cli.ldconfig=@/sbin/"),
        ("operator-toolkit", "/usr/local/nvidia/toolkit"),
        ("runfile libnvidia-compute-570", "nvidia-uninstall"),
        ("vfio-pci 0000:17:00.0", "vfio-pci.ids"),
    ],
)
@pytest.mark.promise("What other installers of the driver left on a host is named with its cure.")
def test_what_other_installers_left_is_named(leftover: str, words: str) -> None:
    (fault,) = found(replace(GOOD, leftovers=(leftover,)))
    assert words in str(fault)


@pytest.mark.promise(
    "A GPU for virtual machines (vfio-pci) is a fault only if fewer GPUs than declared are left."
)
def test_a_gpu_of_virtual_machines_is_a_fault_only_if_fewer_than_declared_are_left() -> None:
    facts = replace(GOOD, gpus=GPUS, leftovers=("vfio-pci 0000:17:00.0",))
    for declared, number in ((len(GPUS), 1), (len(GPUS) - 1, 0)):
        faults = validate_driver(replace(host(), gpus=declared), facts)
        assert sum("vfio-pci" in str(fault) for fault in faults) == number


def test_leftovers_without_effect_are_no_fault() -> None:
    assert found(replace(GOOD, leftovers=("no-cgroups",), runtime_mode="cdi")) == []
    assert found(replace(GOOD, leftovers=("root /run/nvidia/driver",)), source="operator") == []
    assert found(replace(GOOD, leftovers=("runfile ",))) == []
    without = replace(host(), configures_runtime=False)
    facts = replace(GOOD, leftovers=("no-cgroups", "operator-toolkit"))
    assert list(validate_driver(without, facts)) == []


def test_a_driver_container_beside_the_hosts_driver_is_named() -> None:
    (fault,) = found(replace(GOOD, driver_container=True))
    assert "/run/nvidia/driver" in str(fault)
    assert found(replace(GOOD, driver_container=True), source="operator") == []


@pytest.mark.promise("A GPU that is left out by a UUID and was replaced by another is named.")
def test_an_excluded_uuid_that_was_replaced_is_named() -> None:
    """Cold migration of a virtual machine gives its GPUs other UUIDs."""
    excluded = replace(host(), excluded_gpus=("GPU-1", "GPU-2"), gpus=1)
    facts = replace(GOOD, uuids=("GPU-2", "GPU-3", "GPU-4"))
    (fault,) = validate_driver(excluded, facts)
    assert "no GPU with the UUID GPU-1," in str(fault)
    assert "2 other GPUs; wanted: 1 other GPUs" in str(fault)
    assert fault.severity is FaultSeverity.ERROR
    # The excluded GPU is off the bus, and no other GPU has replaced it.
    assert list(validate_driver(excluded, replace(GOOD, uuids=("GPU-2", "GPU-3")))) == []
    assert list(validate_driver(excluded, replace(GOOD, uuids=("GPU-1", "GPU-2", "GPU-3")))) == []
    # The UUIDs are not known with an older driver, or before a program has opened the GPUs.
    assert list(validate_driver(excluded, GOOD)) == []
    assert list(validate_driver(excluded, replace(GOOD, uuids=("GPU-????????-????",)))) == []


@pytest.mark.promise(
    "A host's own IMEX daemon beside those of compute domains is named with its cure."
)
@pytest.mark.parametrize("state", ["active", "activating", "inactive", "failed", ""])
@pytest.mark.parametrize("runs_imex", [True, False])
def test_an_imex_daemon_of_the_host_beside_compute_domains_is_named(
    state: str, runs_imex: bool
) -> None:
    declared = replace(host(), runs_imex=runs_imex)
    faults = list(validate_driver(declared, replace(GOOD, imex=state)))
    is_named = runs_imex and state.startswith("activ")
    assert [fault.severity for fault in faults] == [FaultSeverity.ERROR] * is_named
    assert all("`systemctl disable --now nvidia-imex`" in fault.cure for fault in faults)


@pytest.mark.parametrize(
    ("section", "runs_imex"),
    [
        ({"platform": "dra", "dra": {"computeDomains": True}}, True),
        ({"platform": "dra"}, False),
        ({"platform": "device-plugin"}, False),
    ],
)
def test_only_a_platform_with_compute_domains_runs_imex(
    section: dict[str, object], runs_imex: bool
) -> None:
    declared = cluster(**section)
    assert desired_host(declared, declared.hosts[0]).runs_imex is runs_imex
