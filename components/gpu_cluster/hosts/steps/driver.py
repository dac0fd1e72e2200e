"""Step that installs NVIDIA's driver, or removes it if a container provides the driver."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_cluster.base.compatibility import cuda_of, driver_for, kernel_refused, runs, shown
from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts import disruption
from gpu_cluster.hosts.observed.driver import validate_driver
from gpu_cluster.hosts.step import (
    Given,
    Phase,
    Step,
    below_floor,
    fault,
    places,
    repositories,
    said,
)
from gpu_cluster.settings.hosts.driver import DriverSettings, DriverSource
from gpu_rules.facts.floors import Software
from gpu_rules.faults import Fault, FaultSeverity

PERSISTENCED_UNIT = """[Unit]
Description=NVIDIA Persistence Daemon

[Service]
Type=forking
ExecStart=/usr/bin/nvidia-persistenced --verbose
ExecStopPost=/bin/rm -rf /var/run/nvidia-persistenced

[Install]
WantedBy=multi-user.target
"""
"""Systemd unit for drivers from a runfile, which contains the daemon but no unit.

Source: NVIDIA driver README, "nvidia-persistenced".
"""
UVM_UNIT = """[Unit]
Description=gpu-cluster: /dev/nvidia-uvm before the first program asks for it
After=systemd-udevd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/nvidia-modprobe -u -c 0

[Install]
WantedBy=multi-user.target
"""


def driver_of(host: DesiredHost) -> DriverSettings | None:
    """Return the driver that the preparation installs or removes; None if it does neither."""
    acts = host.sections.driver.by_preparation or host.sections.driver.remove_earlier
    return host.sections.driver if host.role.has_gpus and acts else None


def _driver_inputs(host: DesiredHost) -> Given | None:
    """Return the step's inputs.

    The number of package manager runs includes the removal of an earlier driver and module builds
    for two kernels.
    """
    driver = driver_of(host)
    if driver is None:
        return None
    runfile = driver.runfile
    return Given(
        settings=_driver_settings(driver, host.sections.cuda.version or ""),
        lists={"each_driver_location": places(runfile.locations if runfile else ())},
        repositories=repositories("driver", driver.repository),
        runs=5,
    )


def _driver_settings(driver: DriverSettings, cuda: str) -> dict[str, str]:
    if driver.in_container:
        return {"GC_DRIVER_SOURCE": driver.source.value, "GC_DRIVER_KEEP_CUDA": cuda}
    runfile = driver.runfile
    return {
        "GC_DRIVER_SOURCE": driver.source.value,
        "GC_DRIVER_VERSION": driver.version or "",
        "GC_DRIVER_MODULES": driver.kernel_module_type.value,
        "GC_DRIVER_HOLD": said(driver.hold),
        "GC_DRIVER_REMOVE_EARLIER": said(driver.remove_earlier),
        "GC_DRIVER_PERSISTENCE": said(driver.persistence),
        "GC_DRIVER_FABRIC_MANAGER": driver.fabric_manager.value,
        "GC_DRIVER_IMEX_NODES": "".join(f"{node}\n" for node in driver.imex_nodes),
        "GC_DRIVER_SHA256": runfile.sha256 if runfile else "",
        "GC_DRIVER_DKMS": said(bool(runfile and runfile.dkms)),
        "GC_PERSISTENCED_UNIT": PERSISTENCED_UNIT,
        "GC_UVM_UNIT": UVM_UNIT,
    }


def _judge_driver(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    if not host.role.has_gpus:
        return
    driver = host.sections.driver
    if driver.in_container:
        if facts.driver and not facts.driver_container and not driver.remove_earlier:
            cure = "declare driver.removeEarlier: true, or driver.source: preinstalled"
            found = f"driver {facts.driver} installed and loaded on the host"
            yield fault(host, found, "no driver of the host", cure, FaultSeverity.WARNING)
    elif driver.source is not DriverSource.PREINSTALLED:
        pass  # The preparation installs the declared driver, so a missing driver is no fault.
    elif facts.driver is None:
        cure = "install the driver, or declare another driver.source"
        yield fault(host, "no NVIDIA driver loaded", "a driver", cure)
    elif driver.version and facts.driver != driver.version:
        cure = "install that driver, or declare this one in driver.version"
        yield fault(host, f"driver {facts.driver}", driver.version, cure)
    installed = disruption.steps(facts.disrupts.get(Phase.PREPARE, "")).get("driver")
    no_more = driver_of(host) is None and not driver.in_container
    if installed and no_more and host.sections.packages.remove:
        yield fault(
            host,
            "a driver that is no longer declared; packages.remove: true would uninstall it",
            "a driver for the host's GPUs",
            "declare the driver again, or set packages.remove to false to keep it",
        )
    version_text = driver.version or facts.driver or ""
    yield from cuda_needs(host, version_text, "validation.image", cuda_of(host.validation_image))
    yield from _judge_kernel(host, facts)
    yield from _secure_boot(host, facts)
    yield from validate_driver(host, facts)
    yield from below_floor(host, Software.DRIVER, version_text, FaultSeverity.WARNING)


def cuda_needs(host: DesiredHost, driver: str, setting: str, cuda: str) -> Iterator[Fault]:
    """Yield a fault if a driver can't run programs of a CUDA version.

    Args:
        driver: Version of the driver. Empty: unknown.
        setting: Setting that declares the CUDA version.
        cuda: CUDA version. Empty: not declared.
    """
    if driver and not runs(cuda, driver):
        cure = f"declare that driver, or an older CUDA in {setting}"
        wanted = f"{shown(driver_for(cuda))} or later"
        yield fault(host, f"driver {driver} for CUDA {cuda} of {setting}", wanted, cure)


def _judge_kernel(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    driver = host.sections.driver.version or facts.driver
    kernel = host.sections.kernel.release or facts.kernel
    built_here = driver is not None and facts.driver != driver
    if driver and built_here and (refusal := kernel_refused(driver, kernel)):
        cure = "declare another driver.version, or another kernel.release"
        yield fault(
            host, f"driver {driver} on kernel {kernel}, {refusal}", "a pair that builds", cure
        )


def _secure_boot(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    if facts.secure_boot and facts.driver is None:
        # The GPU Operator's driver container does not sign the modules that it builds
        # (NVIDIA/gpu-operator issue 266). Precompiled modules are signed if their distribution
        # signs them.
        built = host.sections.driver.managed_by_operator and not host.sections.driver.precompiled
        severity = FaultSeverity.ERROR if built else FaultSeverity.WARNING
        cure = "turn it off in the firmware, or enrol the key that signs the driver (mokutil)"
        yield fault(host, "Secure Boot on", "Secure Boot off, or a signed driver", cure, severity)


STEP = Step(
    does="installs or removes NVIDIA's driver",
    given=_driver_inputs,
    after="kernel",
    files=(
        "driver",
        "library/driver_packages",
        "library/driver_debian",
        "library/gpu_holders",
        "library/driver_runfile",
        "library/module_streams",
        "library/fabric",
    ),
    disrupts=(
        "GC_DRIVER_SOURCE",
        "GC_DRIVER_VERSION",
        "GC_DRIVER_MODULES",
        "GC_DRIVER_SHA256",
    ),
    judge=_judge_driver,
)
