"""Step that installs the NVIDIA Container Toolkit and checks its settings for the engine."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.host_facts import UNREAD, HostFacts
from gpu_cluster.hosts.step import NO_VERSION, Given, Phase, Step, below_floor, fault, said
from gpu_cluster.settings.hosts.runtime import ToolkitSource
from gpu_rules.facts.floors import Software, floor
from gpu_rules.faults import Fault, FaultSeverity

PACKAGES = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)
"""Packages of the toolkit, which must have the same version, or apt takes the newest ones.

Source: NVIDIA Container Toolkit installation guide.
"""


def _toolkit_inputs(host: DesiredHost) -> Given:
    runtime, toolkit = host.sections.runtime, host.sections.runtime.toolkit
    by_packages = toolkit.source is ToolkitSource.PACKAGE
    sources = (("apt", toolkit.apt), ("dnf", toolkit.dnf)) if by_packages else ()
    return Given(
        settings={
            "GC_CHECK_IMAGE": runtime.check_image or "",
            "GC_TOOLKIT_SOURCE": toolkit.source.value,
            "GC_TOOLKIT_FLOOR": floor(Software.TOOLKIT).fixed,
            "GC_DEFAULT_RUNTIME": runtime.default_runtime.value,
            "GC_DEVICES_BY_ENVIRONMENT": said(runtime.devices_by_environment),
            "GC_TOOLKIT_PACKAGES": _package_names(toolkit.version),
        },
        repositories=tuple(
            (manager, PACKAGES[0], *repository.row) for manager, repository in sources
        ),
        runs=2 if by_packages else 0,
    )


def _package_names(version: str | None) -> str:
    return " ".join(f"{name}={version}" if version else name for name in PACKAGES)


def _judge_toolkit(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    if not (host.role.has_gpus and host.uses_toolkit):
        return
    if facts.foreign:
        cure = (
            "take the host out of `hosts`, and configure the NVIDIA runtime as the documentation "
            "of that software describes; its node stays in the pool"
        )
        supported = "containerd, Docker or CRI-O of packages, K3s or RKE2"
        has = f"{' and '.join(facts.foreign)}, with its own container engine"
        yield fault(host, has, supported, cure)
    toolkit = host.sections.runtime.toolkit
    by_us = toolkit.source is ToolkitSource.PACKAGE
    wanted = f"{floor(Software.TOOLKIT).fixed} or later"
    if facts.toolkit is None and not by_us:
        cure = "install nvidia-container-toolkit, or declare runtime.toolkit.source: package"
        yield fault(host, "no nvidia-ctk", wanted, cure)
    if facts.toolkit == UNREAD and not by_us:
        yield fault(host, "nvidia-ctk without a version", wanted, NO_VERSION)
    version_text = (toolkit.version if by_us else None) or facts.toolkit or ""
    yield from below_floor(host, Software.TOOLKIT, version_text, FaultSeverity.ERROR)
    if facts.runtime_mode == "legacy":
        yield _legacy_mode_warning(host)


def _legacy_mode_warning(host: DesiredHost) -> Fault:
    """Return a warning about the runtime mode `legacy`.

    In this mode a hook adds devices without the engine's knowledge, so containers can lose them
    (NVIDIA/nvidia-container-toolkit#48). In mode `auto` the toolkit generates CDI specifications
    since 1.18, which is older than the required version (its CHANGELOG, v1.18.0-rc.1, "Default to
    jit-cdi mode"; internal/info/auto.go).
    """
    return fault(
        host,
        "mode legacy of nvidia-container-runtime: running containers lose their GPUs when systemd "
        "reloads its units, as package upgrades make it do",
        "mode auto, which takes CDI",
        "`nvidia-ctk config --in-place --set nvidia-container-runtime.mode=auto` on the host",
        FaultSeverity.WARNING,
    )


STEP = Step(
    does="installs or checks the NVIDIA Container Toolkit",
    given=_toolkit_inputs,
    phase=Phase.RUNTIME,
    disrupts=("GC_DEFAULT_RUNTIME", "GC_DEVICES_BY_ENVIRONMENT", "GC_TOOLKIT_PACKAGES"),
    judge=_judge_toolkit,
    writes=("/etc/nvidia-container-runtime/config.toml",),
)
