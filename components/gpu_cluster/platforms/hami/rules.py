"""Checks of HAMi's settings against its chart, its source and the rest of the stack file.

Source: Project-HAMi/HAMi v2.10.0 (4707fb02), README.md ("Prerequisites"), charts/hami and
pkg/device-plugin/nvidiadevice/nvinternal/plugin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from gpu_cluster.charts.extra_values import plain
from gpu_cluster.charts.value_check import check
from gpu_cluster.charts.value_table import table
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.platforms.findings import Surroundings, numbers, value_at
from gpu_cluster.platforms.hami.values import CHART
from gpu_cluster.settings.adopted import AdoptedSettings
from gpu_cluster.settings.hami import HamiSettings
from gpu_cluster.settings.hosts.driver import DriverSource
from gpu_cluster.settings.registry import RegistrySettings
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault, Location, fault, show
from gpu_rules.kube.gpu_resources import GPU, HAMI_CORES, HAMI_MEMORY, HAMI_PERCENTAGE

OLDEST_DRIVER: Final = 440
"""Oldest driver branch that HAMi supports (README.md, "Prerequisites")."""
_SECTION: Final = "hami"
_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "resourceName": GPU,
        "resourceMem": HAMI_MEMORY,
        "resourceMemPercentage": HAMI_PERCENTAGE,
        "resourceCores": HAMI_CORES,
        "schedulerName": "hami-scheduler",
    }
)
"""Values of the chart that name its resources and its scheduler, with the chart's defaults."""


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Yield all faults of the stack file that contradict HAMi."""
    for i, pool in sections.pools.items():
        if pool.mig:
            yield fault(
                ("pools", i, "mig"),
                "MIG devices, with platform hami",
                "whole GPUs: HAMi's mode mig makes and removes MIG devices itself, for each pod",
                "remove mig, or declare platform: device-plugin or gpu-operator",
            )
    for level in sections.gpu_levels:
        driver = level.driver
        if driver is not None and driver.source is DriverSource.DAEMONSET:
            yield fault(
                level.place("driver", "source"),
                "daemonset with platform hami",
                "a driver of the host: HAMi's plugin finds no driver in another folder",
                'write "source: preinstalled", or "source: package" and "version: 595.91.07"; '
                "remove driverInstaller, too",
            )
        if driver is not None and driver.version:
            for each in _old("", driver.version):
                yield fault(level.place("driver", "version"), each.found, each.wanted, each.cure)
    adopted = sections.section(AdoptedSettings)
    if adopted is not None:
        yield from _adopted_values(adopted)
        return
    hami = sections.section(HamiSettings)
    if hami is None:
        return
    registry = sections.section(RegistrySettings)
    if registry is not None and registry.mirror and not hami.kube_scheduler_version:
        yield fault(
            (_SECTION, "kubeSchedulerVersion"),
            "no version, with registry.mirror",
            "the version of kube-scheduler's image, so that it can be copied to the mirror",
            'write the version of the cluster, such as "kubeSchedulerVersion: v1.36.6"',
        )
    yield from _values(hami)


def scheduler(hami: HamiSettings, seen: Surroundings) -> Iterator[Fault]:
    """Yield a fault if the declared kube-scheduler doesn't go with the cluster's version.

    Source: Kubernetes documentation, "Version Skew Policy" (kube-scheduler).
    """
    declared, served = numbers(hami.kube_scheduler_version or ""), numbers(seen.version)
    if (0, 0) in (declared, served):
        return
    (major, minor), (of_server, newest) = declared, served
    if major != of_server or not newest - 1 <= minor <= newest:
        yield fault(
            (_SECTION, "kubeSchedulerVersion"),
            f"{hami.kube_scheduler_version}, with Kubernetes {seen.version}",
            "kube-scheduler of the cluster's own minor version, or of the one before",
            f'write "kubeSchedulerVersion: {seen.version}", or remove it',
        )


def drivers(seen: Surroundings, hosts: Mapping[str, HostFacts]) -> Iterator[Fault]:
    """Yield faults for drivers in the cluster that are older than HAMi supports.

    Args:
        seen: State of the cluster, as the inspection read it.
        hosts: Facts by host, for inspected hosts; they count more than labels of their nodes.
    """
    for name, version in seen.drivers.items():
        if name not in hosts:
            yield from _old(f"node {name}", version)
    for name, facts in hosts.items():
        if facts.driver and not facts.simulated:
            yield from _old(f"host {name}", facts.driver)


def _old(place: str, version: str) -> Iterator[Fault]:
    if 0 < numbers(version)[0] < OLDEST_DRIVER:
        yield Fault(
            place,
            f"driver {version}",
            f"{OLDEST_DRIVER} or later, the oldest that HAMi supports",
            "declare a later driver",
        )


def _values(hami: HamiSettings) -> Iterator[Fault]:
    extra: Mapping[str, Any] = hami.extra_values
    if not extra:
        return
    at = (_SECTION, "extraValues")
    found = [*check(table(CHART, hami.version), extra, at, complete=not hami.unknown_version)]
    yield from found
    if not found:
        yield from _parts(extra, at)


def _adopted_values(adopted: AdoptedSettings) -> Iterator[Fault]:
    """Yield faults for values of an adopted release with which pods get no share of a GPU."""
    if adopted.release is None:
        return
    values, at = plain(adopted.release.values), ("adopted", "release", "values")
    for name, usual in _NAMES.items():
        found = values.get(name, usual)
        if found != usual:
            yield fault(
                (*at, name),
                show(found),
                f"{usual}: rules, quotas and the validation know HAMi's resources and its "
                "scheduler by these names",
                f'write "{name}: {usual}", and change the pods that use the other name',
            )
    yield from _parts(values, at)


def _parts(extra: Mapping[str, Any], at: Location) -> Iterator[Fault]:
    """Yield a fault for each part of the chart that is off, and without which no pod gets a GPU."""
    if value_at(extra, "devicePlugin", "enabled") is False:
        yield fault(
            (*at, "devicePlugin", "enabled"),
            "false",
            "true: nothing else advertises the GPUs of the pools",
            'remove it, or write "gpusPerNode: 0" for pools that advertise no GPUs',
        )
    if value_at(extra, "scheduler", "admissionWebhook", "enabled") is False:
        yield fault(
            (*at, "scheduler", "admissionWebhook", "enabled"),
            "false",
            "true: without the webhook, pods with GPUs go to the default scheduler, which counts "
            "neither memory nor cores",
            "remove it",
        )
    if value_at(extra, "scheduler", "kubeScheduler", "enabled") is False:
        yield fault(
            (*at, "scheduler", "kubeScheduler", "enabled"),
            "false",
            "true: without it no scheduler takes the pods that the webhook hands over",
            "remove it",
        )
    if value_at(extra, "mockDevicePlugin", "enabled") is True:
        yield fault(
            (*at, "mockDevicePlugin", "enabled"),
            show(True),
            "false: the mock advertises devices that nodes don't have",
            "remove it",
        )
