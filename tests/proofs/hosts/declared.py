"""Build the preparation scripts of one GPU host from a stack file with default settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from gpu_cluster.base.model import Model
from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts import phases
from gpu_cluster.hosts.script import Bundle, Declaration
from gpu_cluster.hosts.steps import every
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.hosts.host import Role
from gpu_cluster.settings.hosts.proxy import ProxySettings
from gpu_cluster.settings.hosts.runtime import Engine, RuntimeSettings
from gpu_cluster.settings.hosts.sections import HostSections
from gpu_cluster.settings.hosts.system import SystemSettings
from gpu_cluster_lab.simulator.hosts import host_public_key
from tests.desired_host import desired_host


@cache
def plain() -> DesiredHost:
    """Return the GPU host `gpu-1` of a stack file with default settings."""
    host = {"name": "gpu-1", "address": "127.0.0.1", "hostKey": host_public_key("gpu-1")}
    document = {"version": "v1", "kubernetes": {"context": "c"}, "platform": "device-plugin"}
    pool = {"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8}
    return desired_host(load({**document, "pools": [pool], "hosts": [host]}))


def prepare(
    *,
    system: SystemSettings | None = None,
    role: Role = Role.GPU_WORKER,
    engine: Engine = Engine.CONTAINERD,
    excluded: Sequence[str] = (),
    proxy: ProxySettings | None = None,
    inline: bool = False,
    **library: str,
) -> Declaration:
    """Return the script of phase `prepare` for the host `gpu-1`.

    Each omitted argument keeps the value of the default stack file.

    Args:
        system: Settings of the section `system`.
        role: The host's role in the cluster.
        engine: The host's container engine.
        excluded: UUIDs of the GPUs that the driver must ignore.
        proxy: Settings of the section `proxy`.
        inline: Whether the script contains the step files, as in `assemble`.
        library: Shell variables that override defaults of `steps/library`.
    """
    host = replace(
        plain(),
        sections=_sections(
            system=system or SystemSettings(),
            runtime=RuntimeSettings(engine=engine),
            proxy=proxy or ProxySettings(),
        ),
        role=role,
        excluded_gpus=tuple(excluded),
    )
    return _with(phases.prepare_script(host, inline=inline), library)


def runtime(
    settings: RuntimeSettings | None = None,
    *,
    proxy: ProxySettings | None = None,
    inline: bool = False,
    **library: str,
) -> Declaration:
    """Return the script of phase `runtime` for the host `gpu-1`.

    Each omitted argument keeps the value of the default stack file.

    Args:
        settings: Settings of the section `runtime`.
        proxy: Settings of the section `proxy`.
        inline: Whether the script contains the step files, as in `assemble`.
        library: Shell variables that override defaults of `steps/library`.
    """
    host = replace(
        plain(),
        sections=_sections(runtime=settings or RuntimeSettings(), proxy=proxy or ProxySettings()),
    )
    return _with(phases.runtime_script(host, inline=inline), library)


def _sections(**changed: Model) -> HostSections:
    return plain().sections.model_copy(update=changed)


def step(name: str) -> Bundle:
    """Return the shell files of a preparation step, or one file by its path below `steps/`."""
    return Bundle(name, every()[name].files if name in every() else (name,))


def _with(script: Declaration, library: dict[str, str]) -> Declaration:
    lines = "".join(f"GC_{name.upper()}={value}\n" for name, value in library.items())
    return Declaration.of(f"{lines}{script}", script.bundles, script.settings)
