"""The script of phase ``runtime``: the NVIDIA runtime in a host's container engine."""

from __future__ import annotations

import json

from components.desired.host import DesiredHost
from components.hosts import disruption
from components.hosts.script import COMMON, Bundle, Declaration, assemble, given, library, step
from components.hosts.software import PACKAGE_LIBRARY, common, run_seconds
from components.settings.hosts.proxy import Proxy
from components.settings.hosts.runtime import Engine, Runtime, ToolkitSource
from policies.facts.floors import Part, floor

LIBRARY = library(*COMMON, *PACKAGE_LIBRARY, "runtime")
ENGINES = {
    Engine.CONTAINERD: (
        *("library/engine_plain", "library/containerd_version"),
        *("containerd", "library/containerd_config"),
    ),
    Engine.DOCKER: ("docker", "library/docker_config", "library/docker_data"),
    Engine.CRI_O: ("library/engine_plain", "crio"),
    Engine.K3S: ("library/engine_plain", "k3s"),
    Engine.RKE2: ("library/engine_plain", "k3s"),
}
"""The files of each engine."""
RUNTIME_PATH = "/usr/bin/nvidia-container-runtime"
"""Where the toolkit's packages have it, as `steps/library/runtime.sh` has it."""
TOOLKIT_PACKAGES = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)
"""NVIDIA Container Toolkit installation guide: all four at one version, or apt takes the newest."""


def runtime(
    settings: Runtime | None = None,
    *,
    lock_limit: int | None = None,
    package_limit: int | None = None,
    proxy: Proxy | None = None,
    inline: bool = False,
) -> Declaration:
    """The script of phase ``runtime``. What isn't given is as `steps/library` has it.

    Args:
        settings: the declaration; its defaults where None.
        lock_limit: seconds to wait for another script.
        package_limit: seconds to wait for a package manager that is at work.
        proxy: by which the host reaches repositories and registries; none where None.
        inline: as in `assemble`.
    """
    settings = settings or Runtime()
    toolkit = settings.toolkit
    disrupts = _disrupting(settings)
    values = {
        disruption.SETTING: _lines(settings, disrupts),
        "GC_PHASE": "runtime",
        "GC_LOCK_LIMIT": given(lock_limit),
        "GC_CHECK_IMAGE": settings.check_image or "",
        "GC_TOOLKIT_SOURCE": toolkit.source.value,
        "GC_TOOLKIT_FLOOR": floor(Part.TOOLKIT).fixed,
        **common(toolkit.remove_packages, package_limit, proxy),
        **{name: value for name, value in disrupts.items() if value != RUNTIME_PATH},
    }
    rows: list[tuple[str, ...]] = []
    if toolkit.source is ToolkitSource.PACKAGE:
        sources = (("apt", toolkit.apt), ("dnf", toolkit.dnf))
        rows = [(manager, TOOLKIT_PACKAGES[0], *source.row) for manager, source in sources]
    engine = Bundle(settings.engine.value, ENGINES[settings.engine])
    bundles = (LIBRARY, step("toolkit"), engine)
    return assemble(values, {"each_repository": rows}, bundles, inline=inline)


def runtime_script(host: DesiredHost) -> Declaration:
    """Return the script of phase ``runtime`` of a host."""
    return runtime(host.runtime, package_limit=host.packages.lock_seconds, proxy=host.proxy)


def disrupting(host: DesiredHost) -> str:
    """Return the lines of a host's container runtime that disrupt its pods if they change."""
    return _lines(host.runtime, _disrupting(host.runtime))


def _lines(settings: Runtime, disrupts: dict[str, str]) -> str:
    engine = {"GC_ENGINE": settings.engine.value}
    return disruption.lines({**engine, **disrupts}, disruption.RUNTIME)


def _disrupting(settings: Runtime) -> dict[str, str]:
    toolkit = settings.toolkit
    return {
        "GC_DEFAULT_RUNTIME": settings.default_runtime.value,
        "GC_DEVICES_BY_ENVIRONMENT": str(settings.devices_by_environment).lower(),
        "GC_TOOLKIT_PACKAGES": " ".join(_packages(toolkit.version)),
        **_of_engine(settings),
    }


def toolkit_seconds(host: DesiredHost) -> int:
    """Return the seconds that the installation of the toolkit may take."""
    return run_seconds(host, 2) if host.runtime.toolkit.source is ToolkitSource.PACKAGE else 0


def _of_engine(settings: Runtime) -> dict[str, str]:
    engine, docker = settings.engine, settings.docker
    if engine in (Engine.K3S, Engine.RKE2):
        return {"GC_ENGINE": engine.value}
    values = {
        "GC_SYSTEMD_CGROUP": str(settings.systemd_cgroup).lower(),
        "GC_RUNTIME_PATH": RUNTIME_PATH,
    }
    if engine is not Engine.CRI_O:
        values["GC_CDI"] = str(settings.cdi).lower()
    if engine is Engine.DOCKER:
        values |= {
            "GC_DOCKER_MIRRORS": "\n".join(map(json.dumps, docker.registry_mirrors)),
            "GC_DOCKER_DATA_ROOT": docker.data_root or "",
            "GC_DOCKER_STORAGE": docker.storage_driver.value,
            "GC_DOCKER_MEMBERS": " ".join(docker.members),
            "GC_DOCKER_FORWARD": docker.forward.value,
        }
    return values


def _packages(version: str | None) -> list[str]:
    if version is None:
        return [TOOLKIT_PACKAGES[0]]
    return [f"{name}={version}" for name in TOOLKIT_PACKAGES]
