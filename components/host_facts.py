"""What the probe finds on a host."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class HostFacts:
    """What the probe found on one host.

    Attributes:
        error: why nothing was found; empty when the host answered, and then the rest holds.
        refused: the host was reached but not trusted: its key is another, or it rejects our login.
        wanted, cure: what must be there instead of the error, and what to do; may be empty.
        driver: version of the loaded NVIDIA kernel driver; None where none is loaded.
        containerd: version of containerd on PATH; None where there is none.
        toolkit: version of nvidia-ctk on PATH; None where there is none.
        docker, crio: version of that engine on PATH; None where there is none.
        headers: the running kernel's headers are there (/lib/modules/<kernel>/build).
        secure_boot: UEFI Secure Boot is on; None where the host has no such variable.
        driver_container: a driver container's root is on the host, so what is loaded may be its.
        nvswitches: NVSwitches: PCI devices, and one where they are behind InfiniBand devices.
        skew: seconds by which the host's clock is ahead of this machine's; None where unknown.
        runtime_mode: how the NVIDIA runtime brings devices into containers, as its configuration
            says; empty where it says nothing.
        gpus, rdma, memory, rows: lines of `hardware`, as the probe wrote them.
        unreached: registries (``host:port``) that it was asked for and that don't answer it.
        peermem: a module that gives GPU memory to RDMA devices is loaded.
        open_modules: the loaded driver's modules are the open ones.
        governor: of the first processor's frequency; "-" where it has none.
        numa: the NUMA nodes, such as ``0-1``; "-" where that is not known.
        loaded: those of nouveau and nova_core that are loaded.
        swap: active swap devices.
        package_lock: the package manager's lock file that is held; empty when none is.
        reboot: why our scripts asked for a boot that has not happened yet.
        reboot_required: the distribution asks for a boot (/run/reboot-required).
        digests: sha256 (or ``missing``) of every file that our scripts placed, by path.
        applied: phases (``prepare``, ``runtime``) whose state is on the host.
        disrupts: by phase, what it was applied with that disrupts pods
            (`components.hosts.disruption`).
        drift: by phase, what differs from what was placed: file paths, ``swap``, ``containerd``.
        settings: by phase, the settings that it was last applied with
            (`components.hosts.script.words`); none where that isn't known.
        steps: by phase, the files that it was last applied with, as ``<name>-<sha256>``.
        unfinished: phases to which other settings, or the first, were being applied when a run was
            killed.
        now: the host's clock, UTC.
        simulated: the host says that it is a simulated one.
    """

    error: str = ""
    refused: bool = False
    wanted: str = ""
    cure: str = ""
    os: str = ""
    os_version: str = ""
    arch: str = ""
    kernel: str = ""
    nvidia_devices: int = 0
    loaded: tuple[str, ...] = ()
    driver: str | None = None
    containerd: str | None = None
    toolkit: str | None = None
    docker: str | None = None
    crio: str | None = None
    headers: bool = False
    secure_boot: bool | None = None
    driver_container: bool = False
    nvswitches: int = 0
    skew: float | None = None
    runtime_mode: str = ""
    swap: tuple[str, ...] = ()
    cgroup: int = 0
    disk_free_mib: int = 0
    package_lock: str = ""
    boot_id: str = ""
    reboot: tuple[str, ...] = ()
    reboot_required: bool = False
    simulated: bool = False
    gpus: tuple[str, ...] = ()
    rdma: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    peermem: bool = False
    open_modules: bool = False
    governor: str = "-"
    numa: str = "-"
    now: str = ""
    applied: tuple[str, ...] = ()
    disrupts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    digests: Mapping[str, str] = dataclasses.field(default_factory=dict)
    drift: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    settings: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    steps: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    unfinished: tuple[str, ...] = ()
