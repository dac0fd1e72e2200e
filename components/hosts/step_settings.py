"""Settings of each step that installs software: the assignments at the head of a script."""

from __future__ import annotations

from components.desired.host import DesiredHost
from components.hosts.kubeadm import SOCKETS, join_configuration
from components.hosts.upgrade import upgrade_settings
from components.settings.hosts.cuda import Cuda, CudaSource
from components.settings.hosts.driver import Driver
from components.settings.hosts.engine_install import EngineInstall
from components.settings.hosts.kernel import Kernel
from components.settings.hosts.packages import BUILD
from components.settings.hosts.runtime import Runtime

PERSISTENCED_UNIT = """[Unit]
Description=NVIDIA Persistence Daemon

[Service]
Type=forking
ExecStart=/usr/bin/nvidia-persistenced --verbose
ExecStopPost=/bin/rm -rf /var/run/nvidia-persistenced

[Install]
WantedBy=multi-user.target
"""
"""For runfile drivers, which bring the daemon and no unit (README, "nvidia-persistenced")."""
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


def build_tools(declared: bool, driver: Driver | None) -> tuple[str, ...]:
    """DKMS where it is asked for: RHEL and its rebuilds have none of their own, and a driver's
    packages bring it where they need it.
    """
    by_runfile = driver is not None and driver.runfile is not None and driver.runfile.dkms
    return BUILD if declared or by_runfile else tuple(name for name in BUILD if name != "dkms")


def _versioned(names: tuple[str, ...], version: str | None) -> str:
    return " ".join(f"{name}={version}" if version else name for name in names)


def packages_settings(words: tuple[str, ...], build: bool) -> dict[str, str]:
    """Settings of the step ``packages``: words, and the kernel's build files."""
    return {"GC_PACKAGES": " ".join(dict.fromkeys(words)), "GC_HEADERS": str(build).lower()}


def kernel_settings(kernel: Kernel) -> dict[str, str]:
    """Settings of the step ``kernel``."""
    return {
        "GC_KERNEL_RELEASE": kernel.release or "",
        "GC_KERNEL_FLAVOR": kernel.flavor.value,
        "GC_KERNEL_HOLD": str(kernel.hold).lower(),
    }


def driver_settings(driver: Driver, cuda: Cuda) -> dict[str, str]:
    """Settings of the step ``driver``; where a container brings it, what is removed for it."""
    if driver.in_container:
        keep = str(cuda.source is not CudaSource.NONE).lower()
        return {"GC_DRIVER_SOURCE": driver.source.value, "GC_DRIVER_KEEP_CUDA": keep}
    runfile = driver.runfile
    return {
        "GC_DRIVER_SOURCE": driver.source.value,
        "GC_DRIVER_VERSION": driver.version or "",
        "GC_DRIVER_MODULES": driver.kernel_module_type.value,
        "GC_DRIVER_HOLD": str(driver.hold).lower(),
        "GC_DRIVER_REMOVE_EARLIER": str(driver.remove_earlier).lower(),
        "GC_DRIVER_PERSISTENCE": str(driver.persistence).lower(),
        "GC_DRIVER_FABRIC_MANAGER": driver.fabric_manager.value,
        "GC_DRIVER_IMEX_NODES": "".join(f"{node}\n" for node in driver.imex_nodes),
        "GC_DRIVER_SHA256": runfile.sha256 if runfile else "",
        "GC_DRIVER_DKMS": str(bool(runfile and runfile.dkms)).lower(),
        "GC_PERSISTENCED_UNIT": PERSISTENCED_UNIT,
        "GC_UVM_UNIT": UVM_UNIT,
    }


def cuda_settings(cuda: Cuda) -> dict[str, str]:
    """Settings of the step ``cuda``."""
    version = cuda.version or ""
    return {
        "GC_CUDA_SOURCE": cuda.source.value,
        "GC_CUDA_VERSION": version,
        "GC_CUDA_PACKAGES": f"cuda-toolkit-{version.replace('.', '-')}",
        "GC_CUDA_SHA256": cuda.runfile.sha256 if cuda.runfile else "",
    }


def engine_settings(runtime: Runtime, install: EngineInstall) -> dict[str, str]:
    """Settings of the step ``engine``."""
    first, *others = install.packages
    return {
        "GC_ENGINE": runtime.engine.value,
        "GC_ENGINE_PACKAGES": " ".join((_versioned((first,), install.version), *others)),
        "GC_ENGINE_HELD": " ".join(install.packages),
        "GC_ENGINE_HOLD": str(install.hold).lower(),
        "GC_SYSTEMD_CGROUP": str(runtime.systemd_cgroup).lower(),
        "GC_SANDBOX_IMAGE": install.sandbox_image or "",
        "GC_ADAPTER_SHA256": install.cri_dockerd.sha256 if install.cri_dockerd else "",
    }


def kubernetes_settings(host: DesiredHost, join_token: str | None) -> dict[str, str]:
    """Return the settings of the step ``kubernetes``: a secret if the host joins."""
    packages, join = host.kubernetes_packages, host.join
    names = ("kubelet", "kubeadm", "kubectl")
    engine = host.runtime.engine
    return {
        "GC_KUBERNETES_PACKAGES": _versioned(names, packages.version),
        "GC_KUBERNETES_HELD": " ".join(names),
        "GC_KUBERNETES_HOLD": str(packages.hold).lower(),
        "GC_JOIN": join_configuration(packages.version or "", join, host, join_token or "", engine)
        if join
        else "",
        "GC_JOIN_ENDPOINT": join.endpoint if join else "",
        "GC_JOIN_LIMIT": str(join.timeout_seconds) if join else "",
        "GC_CRI_SOCKET": SOCKETS.get(engine, ""),
        **upgrade_settings(host),
    }
