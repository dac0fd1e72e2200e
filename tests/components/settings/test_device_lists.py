"""How the device plugin passes devices to containers, depending on the nodes' toolkit."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.loading.loader import load
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.plugin_flags import DeviceListStrategy
from gpu_rules.faults import ConfigError
from tests.resolved import platform_of

Json = dict[str, Any]
HOST = {
    "name": "gpu-1",
    "address": "192.0.2.11",
    "hostKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKvDyV1cmEiXz9dP0UXFkyBKtNBYLVgEdSOvVr4fsW1F",
}


def loaded(**sections: Any) -> Cluster:
    pool = {"name": "gpu", "nodes": ["gpu-1"], "gpusPerNode": 8}
    common = {"version": "v1", "kubernetes": {"context": "c"}, "platform": "device-plugin"}
    return load({**common, "pools": [pool], **sections})


def strategies(cluster: Cluster) -> set[DeviceListStrategy]:
    plugin = cluster.device_plugin
    files = (plugin.config, *plugin.configs.values())
    return {strategy for file in files for strategy in file.flags.plugin.device_list_strategy}


def flags(*strategy: str) -> Json:
    return {"config": {"flags": {"plugin": {"deviceListStrategy": list(strategy)}}}}


def test_on_prepared_hosts_every_configuration_hands_devices_out_by_mounts() -> None:
    configs = {
        "shared": {"sharing": {"timeSlicing": {"resources": [{"name": "gpu", "replicas": 2}]}}}
    }
    cluster = loaded(hosts=[HOST], devicePlugin={"configs": configs})
    assert strategies(cluster) == {DeviceListStrategy.VOLUME_MOUNTS}


@pytest.mark.parametrize(
    "sections",
    [
        {},
        {"hosts": [{**HOST, "role": "control-plane", "name": "cp-1"}]},
        {"hosts": [HOST], "runtime": {"devicesByEnvironment": True}},
    ],
)
def test_where_the_toolkit_is_as_installed_the_variable_stays(sections: Json) -> None:
    assert strategies(loaded(**sections)) == {DeviceListStrategy.ENVVAR}


def test_a_declared_strategy_stays() -> None:
    cluster = loaded(hosts=[HOST], devicePlugin=flags("cdi-cri"))
    assert strategies(cluster) == {DeviceListStrategy.CDI_CRI}


def test_the_variable_is_refused_where_hosts_answer_it_to_nobody() -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(hosts=[HOST], devicePlugin=flags("envvar"))
    assert "envvar, with runtime.devicesByEnvironment false" in str(caught.value)
    assert loaded(
        hosts=[HOST], devicePlugin=flags("envvar"), runtime={"devicesByEnvironment": True}
    )


@pytest.mark.parametrize(
    ("sections", "mounts"),
    [
        ({}, False),  # With CDI the operator passes devices by CDI.
        ({"runtime": {"cdi": False}}, True),
        ({"runtime": {"cdi": False, "devicesByEnvironment": True}}, False),
        ({"runtime": {"cdi": False}, "gpuOperator": {"toolkit": False}}, False),
    ],
)
def test_the_operator_answers_the_variable_only_where_declared(
    sections: Json, mounts: bool
) -> None:
    common = {"platform": "gpu-operator", "driver": {"source": "operator"}}
    cluster = loaded(**common, **sections)
    values = platform_of(cluster).values()
    environment = values.get("devicePlugin", {}).get("env", [])
    wanted = [{"name": "DEVICE_LIST_STRATEGY", "value": "volume-mounts"}]
    assert environment == (wanted if mounts else [])
    if values["toolkit"]["enabled"]:
        toolkit = {variable["name"]: variable["value"] for variable in values["toolkit"]["env"]}
        opened = cluster.pools[0].runtime.devices_by_environment
        name = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"
        assert toolkit[name] == str(opened).lower()
