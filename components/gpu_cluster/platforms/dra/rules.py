"""Checks of the DRA driver's settings against its chart and the rest of the stack file.

The driver checks its feature gates when it starts, so without these checks a contradiction is only
seen as a crash loop on each node. Sources: kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1 and v0.5.0,
pkg/featuregates/featuregates.go (names, defaults and `ValidateFeatureGates`), pkg/imex/imex.go
(`Validate`), cmd/gpu-kubelet-plugin/main.go (`--consumable-shares`) and
deployments/helm/dra-driver-nvidia-gpu/templates (`fail`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.base.nearness import nearest
from gpu_cluster.charts.value_check import check
from gpu_cluster.charts.value_table import is_known, series_of, table
from gpu_cluster.platforms.findings import numbers, value_at
from gpu_cluster.settings.dra import DraSettings
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault, FaultSeverity, Location, fault, show

CHART = "dra-driver-nvidia-gpu"
HEALTH = "NVMLDeviceHealthCheck"
"""Feature gate with which the driver taints unhealthy devices in its ResourceSlices."""
SHARES, HOST_IMEX = "ConsumableShares", "HostManagedIMEXDaemon"
_METADATA, _PASSTHROUGH = "DeviceMetadata", "PassthroughSupport"
_CLIQUES, _DNS, _MIG = "ComputeDomainCliques", "IMEXDaemonsWithDNSNames", "DynamicMIG"

ON = frozenset({_CLIQUES, _DNS, "CrashOnNVLinkFabricErrors", "ContextualLogging"})
"""Feature gates that are on by default."""
_GATES = frozenset(
    {
        *ON,
        *("TimeSlicingSettings", "MPSSupport", _PASSTHROUGH, _MIG, HEALTH, _METADATA),
        *("LoggingAlphaOptions", "LoggingBetaOptions"),
    }
)
GATES: Mapping[str, frozenset[str]] = {
    "0.4": _GATES,
    "0.5": _GATES | {"FabricManagerPartitioning", HOST_IMEX, "DRAListTypeAttributes", SHARES},
}
"""Feature gates that each series of the driver knows."""
NEEDS = ((_CLIQUES, _DNS), (_METADATA, _PASSTHROUGH))
"""Feature gates, each with the gate that it requires."""
EXCLUDES = ((_MIG, _PASSTHROUGH), (_MIG, HEALTH), (_MIG, "MPSSupport"), (_PASSTHROUGH, HEALTH))
"""Pairs of feature gates that exclude each other."""
TAINTS_ON = (1, 36)
"""First Kubernetes version with DRADeviceTaints on (kubernetes v1.36.3, kube_features.go)."""
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults in `extraValues` of the chart, and in the hosts' settings for IMEX."""
    dra = sections.section(DraSettings)
    extra: Mapping[str, Any] = {}
    if dra is not None and dra.extra_values:
        extra, at = dra.extra_values, ("dra", "extraValues")
        faults = [*check(table(CHART, dra.version), extra, at, complete=not dra.unknown_version)]
        yield from faults
        # Values of a wrong type are not compared with each other.
        if not faults:
            yield from _check_gates(dra, at)
            yield from _check_imex(extra, at)
            yield from _check_shares(extra, at)
            yield from _check_webhook(extra, at)
    for level in sections.levels:
        if level.driver is None or not level.driver.imex_nodes or by_hosts(extra):
            continue
        yield fault(
            level.place("driver", "imex_nodes"),
            "imexNodes with platform dra",
            "no IMEX on hosts: a ComputeDomain starts its own (NVIDIA GPU Operator documentation, "
            '"NVIDIA DRA Driver", prerequisites)',
            "remove imexNodes, or write resources.computeDomains.imex.mode: hostManaged in "
            "dra.extraValues",
        )


def by_hosts(extra: Mapping[str, Any]) -> bool:
    """Return whether the hosts run IMEX, and not the driver."""
    return bool(value_at(extra, "resources", "computeDomains", "imex", "mode") == "hostManaged")


def enabled(extra: Mapping[str, Any], gate: str) -> bool:
    """Return whether a feature gate of the driver is on."""
    gates: Mapping[str, bool] = extra.get("featureGates") or {}
    return gates.get(gate, gate in ON)


def taints_served(dra: DraSettings, context: str, version: str) -> Iterator[Fault]:
    """Yield a warning if the driver checks GPUs, and the API server may drop its taints.

    Args:
        dra: The driver's settings.
        version: Version of the API server.
    """
    if enabled(dra.extra_values, HEALTH) and (0, 0) < numbers(version) < TAINTS_ON:
        yield Fault(
            f"cluster {context}",
            f"Kubernetes {version}, where the feature gate DRADeviceTaints is off by default, and "
            f"{HEALTH} on",
            "taints of devices that reach the scheduler: without them it allocates a lost GPU",
            "turn it on in kube-apiserver, kube-scheduler and kube-controller-manager, "
            f"or upgrade to {TAINTS_ON[0]}.{TAINTS_ON[1]}",
            FaultSeverity.WARNING,
        )


def _check_gates(dra: DraSettings, at: Location) -> Iterator[Fault]:
    extra, at = dra.extra_values, (*at, "featureGates")
    known_gates = GATES.get(series_of(dra.version), frozenset())
    for name in extra.get("featureGates") or {}:
        if is_known(CHART, dra.version) and name not in known_gates:
            yield fault(
                (*at, name),
                f"no feature gate of driver {dra.version}, which ends at an unknown gate",
                f"one of {', '.join(sorted(known_gates))}",
                f"write {show(nearest(name, sorted(known_gates)))}, or remove it",
            )
    for gate, needed in NEEDS:
        if enabled(extra, gate) and not enabled(extra, needed):
            yield fault(
                (*at, needed),
                f"off, with {gate} on: the driver does not start",
                f"both gates on, since {gate} needs {needed}",
                f"write {needed}: true, or {gate}: false",
            )
    for gate, excluded_gate in EXCLUDES:
        if enabled(extra, gate) and enabled(extra, excluded_gate):
            yield fault(
                (*at, excluded_gate),
                f"on, with {gate} on: the driver does not start",
                "only one of these gates on: they exclude each other",
                f"write {excluded_gate}: false, or {gate}: false",
            )


def _check_imex(extra: Mapping[str, Any], at: Location) -> Iterator[Fault]:
    at = (*at, "resources", "computeDomains", "imex")
    if by_hosts(extra) and not enabled(extra, HOST_IMEX):
        yield fault(
            (*at, "mode"),
            f"hostManaged, with the feature gate {HOST_IMEX} off: the chart refuses it",
            "the feature gate on",
            f"write featureGates.{HOST_IMEX}: true",
        )
    isolation = value_at(extra, "resources", "computeDomains", "imex", "isolation")
    if isolation not in (None, "", "domain"):
        yield fault(
            (*at, "isolation"),
            f"{show(isolation)}, which the driver does not support",
            "domain: all workloads of an IMEX domain share channel 0",
            "remove it",
        )


_SHARES = "write disabled, or remove it"


def _check_shares(extra: Mapping[str, Any], at: Location) -> Iterator[Fault]:
    shares = str(extra.get("consumableShares") or "")
    if not shares or shares == "disabled":
        return
    at = (*at, "consumableShares")
    if shares not in ("memory", "unlimited") and not _NUMBER.fullmatch(shares):
        yield fault(at, show(shares), "disabled, memory, unlimited or a number above 0", _SHARES)
    elif not enabled(extra, SHARES):
        yield fault(
            at,
            f"{show(shares)}, with the feature gate {SHARES} off: the driver does not start",
            "the feature gate on",
            f"write featureGates.{SHARES}: true",
        )
    elif enabled(extra, "MPSSupport"):
        yield fault(
            at,
            f"{show(shares)}, with the feature gate MPSSupport on",
            "one way to share: MPS is not supported with consumable shares",
            "write featureGates.MPSSupport: false, or remove it",
        )


def _check_webhook(extra: Mapping[str, Any], at: Location) -> Iterator[Fault]:
    if value_at(extra, "webhook", "enabled") is not True:
        return
    at = (*at, "webhook", "tls")
    mode = value_at(extra, "webhook", "tls", "mode") or "cert-manager"
    if mode == "secret" and not value_at(extra, "webhook", "tls", "secret", "name"):
        yield fault(
            (*at, "secret", "name"),
            "no name, with mode secret: the chart refuses it",
            "the Secret with tls.crt and tls.key",
            "write its name, and secret.caBundle",
        )
    issuer = value_at(extra, "webhook", "tls", "certManager", "issuerType") or "selfsigned"
    issuer_name = value_at(extra, "webhook", "tls", "certManager", "issuerName")
    if mode == "cert-manager" and issuer != "selfsigned" and not issuer_name:
        yield fault(
            (*at, "certManager", "issuerName"),
            f"no name, with issuerType {show(issuer)}: the chart refuses it",
            "the issuer's name",
            "write it",
        )
