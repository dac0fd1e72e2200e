"""Values of the DRA driver that its chart or its programs refuse are refused in the stack file."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.host_facts import HostFacts
from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.findings import Surroundings
from gpu_rules.faults import ConfigError, FaultSeverity
from tests.proofs.platform import ways
from tests.resolved import platform_of

Json = dict[str, Any]
HOST_IMEX = {
    "resources": {"computeDomains": {"imex": {"mode": "hostManaged"}}},
    "featureGates": {"HostManagedIMEXDaemon": True},
}


def declared(extra: Json, version: str = "0.5.0", **sections: Any) -> Any:
    dra = {"version": version, "extraValues": extra}
    return load(ways.declared("x", "dra", dra=dra, **sections))


def gates(**names: bool) -> Json:
    return {"featureGates": names}


@pytest.mark.promise(
    "Feature gates and values with which NVIDIA's DRA driver would not start are refused in the "
    "stack file."
)
@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (gates(NVMLDeviceHealthChecks=True), 'write "NVMLDeviceHealthCheck"'),
        (gates(DynamicMIG=True, NVMLDeviceHealthCheck=True), "NVMLDeviceHealthCheck: found on"),
        (gates(DynamicMIG=True, PassthroughSupport=True), "exclude each other"),
        (gates(DynamicMIG=True, MPSSupport=True), "exclude each other"),
        (gates(PassthroughSupport=True, NVMLDeviceHealthCheck=True), "exclude each other"),
        (gates(DeviceMetadata=True), "DeviceMetadata needs PassthroughSupport"),
        (
            gates(IMEXDaemonsWithDNSNames=False),
            "ComputeDomainCliques needs IMEXDaemonsWithDNSNames",
        ),
        ({"consumableShares": 4}, "feature gate ConsumableShares off"),
        ({"consumableShares": "many", **gates(ConsumableShares=True)}, "disabled, memory"),
        (
            {"consumableShares": "memory", **gates(ConsumableShares=True, MPSSupport=True)},
            "MPS is not supported",
        ),
        (
            {"resources": {"computeDomains": {"imex": {"mode": "hostManaged"}}}},
            "featureGates.HostManagedIMEXDaemon: true",
        ),
        (
            {"resources": {"computeDomains": {"imex": {"isolation": "channel"}}}},
            "which the driver does not support",
        ),
        ({"webhook": {"enabled": True, "tls": {"mode": "secret"}}}, "mode secret"),
        (
            {"webhook": {"enabled": True, "tls": {"certManager": {"issuerType": "issuer"}}}},
            "issuerName",
        ),
    ],
)
def test_what_the_driver_or_its_chart_refuses_is_refused_before(extra: Json, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        declared(extra)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "extra",
    [
        gates(NVMLDeviceHealthCheck=True, FabricManagerPartitioning=True),
        gates(ComputeDomainCliques=False, IMEXDaemonsWithDNSNames=False),
        gates(DeviceMetadata=True, PassthroughSupport=True),
        {"consumableShares": "disabled"},
        {"consumableShares": "4", **gates(ConsumableShares=True)},
        HOST_IMEX,
        {"webhook": {"enabled": True}},
        {"webhook": {"enabled": False, "tls": {"mode": "secret"}}},
    ],
)
def test_what_the_driver_takes_reaches_its_chart(extra: Json) -> None:
    values = platform_of(declared(extra)).values()
    for key, value in extra.items():
        if key != "resources":
            assert values[key] == value


def test_a_gate_of_a_later_series_is_refused() -> None:
    with pytest.raises(ConfigError, match="no feature gate of driver 0\\.4\\.1"):
        declared(gates(ConsumableShares=True), "0.4.1")


def test_hosts_run_imex_only_if_the_driver_leaves_it_to_them() -> None:
    driver = {"source": "package", "version": "595.91.07", "imexNodes": ["10.0.0.1"]}
    with pytest.raises(ConfigError, match="hostManaged"):
        declared({}, driver=driver)
    assert declared(HOST_IMEX, driver=driver)


@pytest.mark.parametrize(
    ("version", "on", "warned"),
    [
        ("v1.35.4", True, True),
        ("v1.36.3", True, False),
        ("v1.35.4", False, False),
        ("", True, False),
    ],
)
def test_taints_of_lost_gpus_that_the_api_server_may_drop_are_a_warning(
    version: str, on: bool, warned: bool
) -> None:
    platform = platform_of(declared(gates(NVMLDeviceHealthCheck=on)))
    seen = Surroundings(version=version, groups={"resource.k8s.io": ["v1"]})
    hosts: dict[str, HostFacts] = {}
    found = [each for each in platform.validate_cluster(seen, hosts) if "Taints" in str(each)]
    assert [each.severity for each in found] == [FaultSeverity.WARNING] * warned
