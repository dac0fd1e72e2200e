"""Facts about a host, as reported by the probe, a shell script that runs on the host."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

UNREAD = "unknown"
"""Version of a program whose text has none that can be read."""


@dataclasses.dataclass(frozen=True)
class HostFacts:
    """Facts about one host, reported by the probe: a shell script that runs on the host.

    Attributes:
        error: Why the host could not be inspected. Empty if it was inspected; only then are the
            other fields valid.
        refused: Whether the host was reached but not trusted: its host key differs, or it rejects
            the login.
        wanted: What was expected in place of the state in `error`. May be empty.
        cure: How to resolve the error. May be empty.
        os_name: Name of the system for people (PRETTY_NAME).
        image: What delivers the system's packages as one image (rpm-ostree, bootc). Empty: they
            are installed one by one.
        tegra: Model of a machine with Tegra (Jetson), whose GPU is on no PCI bus. Empty: no Tegra.
        driver: Version of the loaded NVIDIA kernel driver. None if no driver is loaded.
        containerd: Version of containerd on PATH, or `UNREAD`. None if it is not installed.
        runc: Version of runc on PATH, or `UNREAD`. None if it is not installed.
        toolkit: Version of nvidia-ctk on PATH, or `UNREAD`. None if it is not installed.
        docker: Version of Docker on PATH, or `UNREAD`. None if it is not installed.
        crio: Version of CRI-O on PATH, or `UNREAD`. None if it is not installed.
        distributions: Kubernetes distributions with their own containerd that are installed: `k3s`,
            `rke2`.
        headers: Whether the running kernel's headers are installed (/lib/modules/<kernel>/build).
        secure_boot: Whether UEFI Secure Boot is on. None if the host has no such EFI variable.
        driver_container: Whether the root of a driver container exists on the host; the loaded
            driver may then belong to the container.
        nvswitches: Number of NVSwitch PCI devices; 1 if the NVSwitches are behind InfiniBand
            devices.
        skew: Seconds by which the host's clock is ahead of this machine's clock. None if unknown.
        runtime_mode: Mode in the NVIDIA container runtime's configuration. Empty if the
            configuration sets no mode.
        default_runtime: Name of the default runtime of the running container engine. Empty if
            unknown, and on hosts without NVIDIA's runtime.
        installed: Version of the NVIDIA kernel module on the disk, which the next boot loads. Empty
            if unknown.
        nvidia_smi: Exit status and words of nvidia-smi if it failed. Empty if it succeeded.
        fabric: State and version of the fabric manager on hosts with NVSwitches; the state is
            `absent` if it is not installed. Empty without NVSwitches.
        imex: State of the unit nvidia-imex. Empty without the program.
        leftovers: Traces that other installers of the driver or the toolkit left, each with kind
            and detail (`gpu_cluster.hosts.observed.driver`).
        uuids: UUIDs of all GPUs that the loaded driver detects, including excluded GPUs.
        gpus: One line per GPU with its PCIe link, NUMA node, IOMMU and ACS, as
            `gpu_cluster.hosts.observed.hardware` parses it.
        rdma: One line per RDMA device with the states of its ports.
        memory: One line per GPU with its ECC mode, from nvidia-smi.
        rows: One line per GPU with its remapped memory rows, from nvidia-smi.
        unreached: Registries (`host:port`) that the probe tried and that the host could not reach.
        peermem: Whether a kernel module is loaded that gives RDMA devices access to GPU memory.
        open_modules: Whether the loaded driver uses NVIDIA's open kernel modules.
        governor: Frequency governor of the first processor; "-" if it has none.
        numa: NUMA nodes, such as `0-1`; "-" if unknown.
        loaded: Loaded kernel modules among nouveau and nova_core.
        swap: Active swap devices.
        kubelet_cgroup_v1: Whether the kubelet's configuration has `failCgroupV1: false`. Unset with
            cgroup v2.
        foreign: Installed software with a built-in container engine that this project does not
            configure: `k0s`, `snap-microk8s`, `snap-docker`, `snap-k8s`.
        package_lock: Lock file that a running package manager holds. Empty if no lock is held.
        reboot: Reasons why this project's scripts requested a reboot that has not happened yet.
        reboot_required: Whether the distribution requests a reboot (/run/reboot-required).
        digests: SHA-256 (or `missing`) of every file that this project's scripts placed, by path.
        applied: Phases (`prepare`, `runtime`, `cluster`) that are applied on the host.
        disrupts: Applied settings that disrupt pods when they change, by phase
            (`gpu_cluster.hosts.disruption`).
        drift: Parts that are no longer as they were applied, by phase: file paths, `swap`,
            `containerd`.
        settings: Settings that each phase was last applied with, by phase
            (`gpu_cluster.hosts.script.words`). Empty if unknown.
        steps: Script files that each phase was last applied with, by phase, as `<name>-<sha256>`.
        unfinished: Phases whose application was interrupted because the run was killed.
        now: Time of the host's clock, UTC.
        simulated: Whether the host reports that it is simulated.
    """

    error: str = ""
    refused: bool = False
    wanted: str = ""
    cure: str = ""
    os: str = ""
    os_version: str = ""
    os_name: str = ""
    image: str = ""
    tegra: str = ""
    arch: str = ""
    kernel: str = ""
    nvidia_devices: int = 0
    loaded: tuple[str, ...] = ()
    driver: str | None = None
    containerd: str | None = None
    runc: str | None = None
    toolkit: str | None = None
    docker: str | None = None
    crio: str | None = None
    distributions: tuple[str, ...] = ()
    headers: bool = False
    secure_boot: bool | None = None
    driver_container: bool = False
    nvswitches: int = 0
    skew: float | None = None
    runtime_mode: str = ""
    default_runtime: str = ""
    installed: str = ""
    nvidia_smi: str = ""
    fabric: str = ""
    imex: str = ""
    leftovers: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    swap: tuple[str, ...] = ()
    cgroup: int = 0
    kubelet_cgroup_v1: bool = False
    foreign: tuple[str, ...] = ()
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
