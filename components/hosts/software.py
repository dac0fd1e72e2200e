"""Steps of the preparation that install software: which a host gets, and their settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from components.hosts.kubeadm import SOCKETS, join_configuration
from components.hosts.script import given
from components.hosts.settings.cuda import Cuda, CudaSource
from components.hosts.settings.driver import Driver
from components.hosts.settings.engine_install import EngineInstall
from components.hosts.settings.host import Host
from components.hosts.settings.kernel import Kernel
from components.hosts.settings.packages import BUILD
from components.hosts.settings.proxy import Proxy
from components.hosts.settings.repository import Repositories
from components.hosts.settings.runtime import Runtime
from components.settings.cluster import Cluster

RUN_LIMIT = 1800
"""Seconds for one run of a package manager or installer, as `steps/library/effects.sh` has it."""
LOCK_LIMIT = 120
"""Seconds to wait for a package manager that is at work, as `steps/library/preflight.sh` has it."""
RUNS: Mapping[str, int] = {
    "packages": 2,
    "kernel": 2,
    "driver": 5,
    "cuda": 2,
    "engine": 3,
    "kubernetes": 2,
}
"""How many of them a step may need: lists and packages; the driver's also removes what was there
and builds modules for two kernels."""

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


NAMES = ("packages", "kernel", "driver", "cuda", "engine", "kubernetes")
"""All steps, in order."""
PACKAGE_LIBRARY = (
    *("proxy", "effects", "apt_entries", "repositories"),
    *("package_manager", "transactions", "holds"),
)
"""Files of the library for every phase that installs packages."""


def common(
    remove: bool = False, lock_seconds: int | None = None, proxy: Proxy | None = None
) -> dict[str, str]:
    """Settings of `PACKAGE_LIBRARY`.

    Args:
        remove: whether packages that are no longer wanted go.
        lock_seconds: how long to wait for a package manager that is at work.
        proxy: by which the host goes out; directly where None.
    """
    variables = proxy.environment if proxy else {}
    return {
        **{f"GC_{name}": value for name, value in variables.items()},
        "GC_REMOVE_PACKAGES": "true" if remove else "",
        "GC_PACKAGE_LOCK_LIMIT": "" if lock_seconds == LOCK_LIMIT else given(lock_seconds),
    }


@dataclass(frozen=True, kw_only=True)
class Steps:
    """What the rendering of a script needs of the declared steps.

    Attributes:
        names: the steps, in order.
        settings: shell assignments.
        repositories: words of each repository: package manager, step, name, then its own.
        driver_locations: where the driver's runfile is, in order.
        cuda_locations: where the CUDA toolkit's runfile is, in order.
        adapter_locations: where the archive of cri-dockerd is, in order.
    """

    names: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=common)
    repositories: tuple[tuple[str, ...], ...] = ()
    driver_locations: tuple[str, ...] = ()
    cuda_locations: tuple[str, ...] = ()
    adapter_locations: tuple[str, ...] = ()


def steps(cluster: Cluster, host: Host, join_token: str | None = None) -> Steps:
    """The steps of ``host``; hosts without GPUs get no GPU step.

    :param cluster: the cluster as this host sees it (``config.Cluster.of``).
    :param join_token: kubeadm's bootstrap token, a secret: it makes the script one. The program
        sees that it is there (``__main__.join_token``).
    """
    gpu = host.role.has_gpus
    acts = cluster.driver.by_preparation or cluster.driver.remove_earlier
    driver = cluster.driver if gpu and acts else None
    build = cluster.packages.build or (driver is not None and driver.by_preparation)
    tools = _build_tools(cluster.packages.build, driver) if build else ()
    words = tools + cluster.packages.install
    runtime = host.runtime or cluster.runtime
    engine = runtime.install
    chosen = {
        "packages": (bool(words), cluster.packages.repository),
        "kernel": (cluster.kernel.release is not None, cluster.kernel.repository),
        "driver": (driver is not None, cluster.driver.repository),
        "cuda": (
            gpu and cluster.cuda.source is not CudaSource.NONE,
            cluster.cuda.repository,
        ),
        "engine": (engine is not None, engine.repository if engine else Repositories()),
        "kubernetes": (
            cluster.kubernetes_packages.version is not None,
            cluster.kubernetes_packages.repository,
        ),
    }
    names = tuple(name for name in NAMES if chosen[name][0])
    settings = {
        **common(cluster.packages.remove, cluster.packages.lock_seconds, cluster.proxy),
        **(_packages(words, build) if "packages" in names else {}),
        **(_kernel(cluster.kernel) if "kernel" in names else {}),
        **(_driver(driver, cluster.cuda) if driver else {}),
        **(_cuda(cluster.cuda) if "cuda" in names else {}),
        **(_engine(runtime, engine) if engine else {}),
        **(_kubernetes(cluster, host, join_token) if "kubernetes" in names else {}),
    }
    return Steps(
        names=names,
        settings=settings,
        repositories=tuple(row for name in names for row in _repositories(name, chosen[name][1])),
        driver_locations=driver.runfile.locations if driver and driver.runfile else (),
        cuda_locations=cluster.cuda.runfile.locations if cluster.cuda.runfile else (),
        adapter_locations=engine.cri_dockerd.locations if engine and engine.cri_dockerd else (),
    )


def installing(cluster: Cluster, host: Host) -> int:
    """Seconds that the steps' installers may take together."""
    runs = sum(RUNS[name] for name in steps(cluster, host).names)
    join = cluster.kubernetes_packages.join if cluster.joins(host) else None
    return run_seconds(cluster, runs) + (join.timeout_seconds if join else 0)


def run_seconds(cluster: Cluster, runs: int) -> int:
    """Seconds of so many runs of a package manager, each of which waits for others first."""
    return runs * (RUN_LIMIT + cluster.packages.lock_seconds)


def _repositories(step: str, declared: Repositories) -> Iterator[tuple[str, ...]]:
    for manager, repository in (("apt", declared.apt), ("dnf", declared.dnf)):
        if repository is not None:
            yield (manager, step, step, *repository.row)


def _build_tools(declared: bool, driver: Driver | None) -> tuple[str, ...]:
    """DKMS where it is asked for: RHEL and its rebuilds have none of their own, and a driver's
    packages bring it where they need it.
    """
    by_runfile = driver is not None and driver.runfile is not None and driver.runfile.dkms
    return BUILD if declared or by_runfile else tuple(name for name in BUILD if name != "dkms")


def _versioned(names: tuple[str, ...], version: str | None) -> str:
    return " ".join(f"{name}={version}" if version else name for name in names)


def _packages(words: tuple[str, ...], build: bool) -> dict[str, str]:
    return {"GC_PACKAGES": " ".join(dict.fromkeys(words)), "GC_HEADERS": str(build).lower()}


def _kernel(kernel: Kernel) -> dict[str, str]:
    return {
        "GC_KERNEL_RELEASE": kernel.release or "",
        "GC_KERNEL_FLAVOR": kernel.flavor.value,
        "GC_KERNEL_HOLD": str(kernel.hold).lower(),
    }


def _driver(driver: Driver, cuda: Cuda) -> dict[str, str]:
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


def _cuda(cuda: Cuda) -> dict[str, str]:
    version = cuda.version or ""
    return {
        "GC_CUDA_SOURCE": cuda.source.value,
        "GC_CUDA_VERSION": version,
        "GC_CUDA_PACKAGES": f"cuda-toolkit-{version.replace('.', '-')}",
        "GC_CUDA_SHA256": cuda.runfile.sha256 if cuda.runfile else "",
    }


def _engine(runtime: Runtime, install: EngineInstall) -> dict[str, str]:
    first, *others = install.packages
    return {
        "GC_ENGINE": runtime.engine.value,
        "GC_ENGINE_PACKAGES": " ".join((_versioned((first,), install.version), *others)),
        "GC_ENGINE_HELD": " ".join(install.packages),
        "GC_ENGINE_HOLD": str(install.hold).lower(),
        "GC_SYSTEMD_CGROUP": str(runtime.systemd_cgroup).lower(),
        "GC_ADAPTER_SHA256": install.cri_dockerd.sha256 if install.cri_dockerd else "",
    }


def _kubernetes(cluster: Cluster, host: Host, join_token: str | None) -> dict[str, str]:
    packages = cluster.kubernetes_packages
    names = ("kubelet", "kubeadm", "kubectl")
    join = packages.join if cluster.joins(host) else None
    engine = (host.runtime or cluster.runtime).engine
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
    }
