"""The script of phase ``runtime``: the NVIDIA runtime in a host's container engine."""

from __future__ import annotations

import json

from components.hosts.settings.runtime import Engine, Runtime, ToolkitSource
from components.hosts.steps.render import LOCK_LIMIT, assemble, each, part
from components.hosts.steps.steps import COMMON, PACKAGE_PARTS

PARTS = {
    Engine.CONTAINERD: ("engine_plain", "containerd", "containerd_config"),
    Engine.DOCKER: ("docker", "docker_config", "docker_data"),
    Engine.CRI_O: ("engine_plain", "crio"),
    Engine.K3S: ("engine_plain", "k3s"),
    Engine.RKE2: ("engine_plain", "k3s"),
}
"""Files of functions by engine, beside those that all have."""
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
    runtime_path: str = "/usr/bin/nvidia-container-runtime",
    lock_limit: int = LOCK_LIMIT,
) -> str:
    """The script of phase ``runtime``.

    :param settings: the declaration; its defaults where None.
    :param runtime_path: the NVIDIA runtime's path on hosts (the toolkit packages' own).
    """
    settings = settings or Runtime()
    toolkit = settings.toolkit
    values = {
        "GC_PHASE": "runtime",
        "GC_LOCK_LIMIT": str(lock_limit),
        "GC_DEFAULT_RUNTIME": settings.default_runtime.value,
        "GC_CHECK_IMAGE": settings.check_image or "",
        "GC_TOOLKIT_SOURCE": toolkit.source.value,
        "GC_TOOLKIT_PACKAGES": " ".join(_packages(toolkit.version)),
        **COMMON,
        "GC_REMOVE_PACKAGES": str(toolkit.remove_packages).lower(),
        **_of_engine(settings, runtime_path),
    }
    rows: list[tuple[str, ...]] = []
    if toolkit.source is ToolkitSource.PACKAGE:
        sources = (("apt", toolkit.apt), ("dnf", toolkit.dnf))
        rows = [(manager, TOOLKIT_PACKAGES[0], *source.row) for manager, source in sources]
    parts = ("library", "preflight", *PACKAGE_PARTS, "toolkit", "runtime", *PARTS[settings.engine])
    return assemble(values, each("each_repository", rows), *map(part, parts))


def _of_engine(settings: Runtime, runtime_path: str) -> dict[str, str]:
    engine, docker = settings.engine, settings.docker
    if engine in (Engine.K3S, Engine.RKE2):
        return {"GC_ENGINE": engine.value}
    values = {
        "GC_SYSTEMD_CGROUP": str(settings.systemd_cgroup).lower(),
        "GC_RUNTIME_PATH": runtime_path,
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
