"""Steps of the preparation that install software: which a host gets, and how long they may take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from components.desired.host import DesiredHost
from components.hosts import upgrade
from components.hosts.script import given
from components.hosts.step_settings import (
    build_tools,
    cuda_settings,
    driver_settings,
    engine_settings,
    kernel_settings,
    kubernetes_settings,
    packages_settings,
)
from components.settings.hosts.cuda import CudaSource
from components.settings.hosts.proxy import Proxy
from components.settings.hosts.repository import Repositories

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
    "kubernetes": 3,
}
"""How many of them a step may need: lists and packages; the driver's also removes what was there
and builds modules for two kernels, Kubernetes' has kubeadm before the others."""

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


def steps(host: DesiredHost, join_token: str | None = None) -> Steps:
    """Return the steps of a host; a host without GPUs gets no GPU step.

    Args:
        host: the host.
        join_token: kubeadm's bootstrap token, a secret: it makes the script one. The program sees
            that it is there (`__main__.join_token`).
    """
    gpu = host.role.has_gpus
    acts = host.driver.by_preparation or host.driver.remove_earlier
    driver = host.driver if gpu and acts else None
    build = host.packages.build or (driver is not None and driver.by_preparation)
    tools = build_tools(host.packages.build, driver) if build else ()
    words = tools + host.packages.install
    engine = host.runtime.install
    chosen = {
        "packages": (bool(words), host.packages.repository),
        "kernel": (host.kernel.release is not None, host.kernel.repository),
        "driver": (driver is not None, host.driver.repository),
        "cuda": (
            gpu and host.cuda.source is not CudaSource.NONE,
            host.cuda.repository,
        ),
        "engine": (engine is not None, engine.repository if engine else Repositories()),
        "kubernetes": (
            host.kubernetes_packages.version is not None,
            host.kubernetes_packages.repository,
        ),
    }
    names = tuple(name for name in NAMES if chosen[name][0])
    settings = {
        **common(host.packages.remove, host.packages.lock_seconds, host.proxy),
        **(packages_settings(words, build) if "packages" in names else {}),
        **(kernel_settings(host.kernel) if "kernel" in names else {}),
        **(driver_settings(driver, host.cuda) if driver else {}),
        **(cuda_settings(host.cuda) if "cuda" in names else {}),
        **(engine_settings(host.runtime, engine) if engine else {}),
        **(kubernetes_settings(host, join_token) if "kubernetes" in names else {}),
    }
    return Steps(
        names=names,
        settings=settings,
        repositories=tuple(row for name in names for row in _repositories(name, chosen[name][1])),
        driver_locations=driver.runfile.locations if driver and driver.runfile else (),
        cuda_locations=host.cuda.runfile.locations if host.cuda.runfile else (),
        adapter_locations=engine.cri_dockerd.locations if engine and engine.cri_dockerd else (),
    )


def installing(host: DesiredHost) -> int:
    """Return the seconds that the installers of all of a host's steps may take together."""
    runs = sum(RUNS[name] for name in steps(host).names)
    join = host.join.timeout_seconds if host.join else 0
    return run_seconds(host, runs) + join + upgrade.SECONDS[host.upgrade]


def run_seconds(host: DesiredHost, runs: int) -> int:
    """Return the seconds that a number of package manager runs may take, each with its wait."""
    return runs * (RUN_LIMIT + host.packages.lock_seconds)


def _repositories(step: str, declared: Repositories) -> Iterator[tuple[str, ...]]:
    for manager, repository in (("apt", declared.apt), ("dnf", declared.dnf)):
        if repository is not None:
            yield (manager, step, step, *repository.row)
