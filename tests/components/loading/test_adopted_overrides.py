"""Adopted manifests and releases that run otherwise than the settings describe are refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.charts.value_table import SERIES, table
from gpu_cluster.loading.loader import load
from gpu_cluster.loading.validate_adopted import _of_objects
from gpu_cluster.settings.adopted import AdoptedSettings
from tests.fixtures.documents import plugin_manifest, refused, stack_document

Json = dict[str, Any]
FLAGS = {
    "migStrategy": ("none", "single"),
    "failOnInitError": (True, "false"),
    "deviceDiscoveryStrategy": ("nvml", "tegra"),
    "nvidiaDriverRoot": ("/", "/run/nvidia/driver"),
    "nvidiaDevRoot": ("/", "/run/nvidia/driver"),
    "gdrcopyEnabled": (True, "false"),
    "gdsEnabled": (True, "false"),
    "mofedEnabled": (True, "false"),
    "plugin.deviceIDStrategy": ("uuid", "index"),
    "plugin.passDeviceSpecs": (False, "true"),
    "plugin.sharedDevicesAllocationPolicy": ("distributed", "packed"),
}
"""Flags of the plugin's configuration file: a declared value, and another text."""


def objects(container: Json) -> Json:
    """Return a section `adopted` with a DaemonSet of the device plugin."""
    return {"objects": [plugin_manifest(containers=[{"name": "main", **container}])]}


def names() -> list[tuple[str, str, str]]:
    """Return each variable and argument that overrides a flag: kind, name, flag."""
    known = table("gpu-operator", f"{SERIES['gpu-operator'][-1]}.0").overrides
    written = [
        ("env", [{"name": name, "value": "x"} for name in known["devicePlugin.env"]]),
        ("args", [f"--{name}=x" for name in known["devicePlugin.args"]]),
    ]
    return [
        (kind, name, setting.removeprefix("devicePlugin.config.flags."))
        for kind, items in written
        for _, name, _, setting in _of_objects(AdoptedSettings(**objects({kind: items})))
    ]


def described(flag: str, value: Any) -> Json:
    flags: Any = value
    for key in reversed(flag.split(".")):
        flags = {key: flags}
    return {"config": {"version": "v1", "flags": flags}}


def adopting(container: Json, flag: str, value: Any) -> Json:
    return stack_document(adopted=objects(container), devicePlugin=described(flag, value))


def container_of(kind: str, name: str, text: str) -> Json:
    return {kind: [{"name": name, "value": text} if kind == "env" else f"--{name}={text}"]}


@pytest.mark.promise(
    "An adopted manifest whose variables or arguments contradict the settings that describe it is "
    "refused."
)
@pytest.mark.parametrize(
    ("kind", "name", "flag"),
    [
        pytest.param(*each, marks=pytest.mark.clusters("override", f"manifest {each[1]}"))
        for each in names()
    ],
    ids=[name for _, name, _ in names()],
)
def test_a_manifest_that_contradicts_a_setting_is_refused(kind: str, name: str, flag: str) -> None:
    value, other = FLAGS[flag]
    (found,) = refused(adopting(container_of(kind, name, other), flag, value))
    assert found.location[-2:] == (kind, 0)
    assert f"as devicePlugin.config.flags.{flag} says" in found.wanted
    same = str(value).lower() if isinstance(value, bool) else str(value)
    load(adopting(container_of(kind, name, same), flag, value))


def test_a_variable_that_no_setting_describes_is_accepted() -> None:
    # NVIDIA's own manifest has this variable, and the stack file needs no setting for it.
    load(stack_document(adopted=objects(container_of("env", "FAIL_ON_INIT_ERROR", "false"))))


@pytest.mark.clusters("override", "manifest valueFrom")
def test_a_value_of_a_config_map_that_may_contradict_a_setting_is_refused() -> None:
    source = {"configMapKeyRef": {"name": "site", "key": "strategy"}}
    container = {"env": [{"name": "MIG_STRATEGY", "valueFrom": source}]}
    (found,) = refused(adopting(container, "migStrategy", "single"))
    assert found.found == "MIG_STRATEGY: a value that another object has"
    assert found.cure == "write the value itself in place of valueFrom"


@pytest.mark.parametrize("items", [["--mig-strategy", "single"], ["-mig-strategy=single"]])
def test_each_way_to_write_an_argument_is_read(items: list[str]) -> None:
    for kind in ("args", "command"):
        (found,) = refused(adopting({kind: items}, "migStrategy", "none"))
        assert found.found == "mig-strategy: single"
        assert found.cure == 'write "migStrategy: single" in devicePlugin.config.flags'


@pytest.mark.clusters("override", "release migStrategy")
def test_a_value_of_an_adopted_release_that_contradicts_a_setting_is_refused() -> None:
    release = {"name": "nvdp", "namespace": "gpus", "version": "0.20.0"}
    document = stack_document(
        adopted={"release": {**release, "values": {"migStrategy": "mixed"}}},
        devicePlugin=described("migStrategy", "single"),
    )
    (found,) = refused(document)
    assert found.location == ("adopted", "release", "values", "migStrategy")
    document["devicePlugin"] = described("migStrategy", "mixed")
    load(document)


@pytest.mark.clusters("override", "release devicePlugin.env[MIG_STRATEGY]")
def test_a_variable_of_an_adopted_operator_that_contradicts_a_setting_is_refused() -> None:
    values = {"devicePlugin": {"env": [{"name": "MIG_STRATEGY", "value": "mixed"}]}}
    release = {"name": "gpu", "namespace": "gpus", "version": "v26.7.0", "values": values}
    document = stack_document(
        platform="gpu-operator",
        adopted={"release": release},
        gpuOperator={"migStrategy": "single"},
    )
    (found,) = refused(document)
    assert found.cure == 'write "migStrategy: mixed" in gpuOperator'
    document["gpuOperator"] = {"migStrategy": "mixed"}
    load(document)
