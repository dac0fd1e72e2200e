"""`config.load`: default values, strict checks, all faults in one error, immutable results."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_cluster.base.document_cures import REMOVE
from gpu_cluster.base.keys import fields
from gpu_cluster.base.model import Model
from gpu_cluster.base.nearness import plain, similarity
from gpu_cluster.loading.loader import load
from gpu_cluster.loading.warnings import warnings
from gpu_cluster.settings.declared_cluster import ClusterSettings
from gpu_cluster.settings.gpu_operator import GpuOperatorSettings
from gpu_rules.faults import ConfigError, Fault
from tests.fixtures.documents import KEYS, RSA, document, refused

ROOT = Path(__file__).resolve().parents[3]
FULL = document(
    kubernetes={"context": "c", "clusterIdentifier": "i"},
    ssh={"user": "ubuntu", "bastion": {"address": "192.0.2.9", "hostKey": KEYS[0]}},
    driver={"source": "preinstalled", "version": "595.91.07"},
    runtime={"engine": "containerd"},
    devicePlugin={
        "config": {
            "flags": {"plugin": {"deviceIDStrategy": "index"}},
            "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}},
        }
    },
    validation={"timeoutSeconds": 60},
    charts={"directory": "charts"},
)


def mappings(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of all objects with a fixed set of keys (not labels and selectors)."""
    if isinstance(value, dict) and (not path or path[-1] not in ("labels", "selector")):
        yield path
    for key, below in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield from mappings(below, (*path, key))


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def model_of(path: tuple[str | int, ...]) -> type[Model]:
    from gpu_cluster.base.keys import model_at

    model = model_at(ClusterSettings, path)
    assert model is not None
    return model


PLACES = sorted(mappings(FULL), key=str)


def test_defaults_are_those_of_the_contract() -> None:
    cluster = load(document())
    pool, host = cluster.pools[0], cluster.hosts[0]
    assert dict(pool.labels) == {"nvidia.com/gpu": "true"}
    assert [str(taint) for taint in pool.taints] == ["nvidia.com/gpu=present:NoSchedule"]
    assert (host.node, host.role, host.port, host.user) == ("gpu-1", "gpu-worker", 22, "root")
    assert (cluster.device_plugin.version, cluster.device_plugin.namespace) == (
        "0.20.1",
        "nvidia-device-plugin",
    )
    assert (cluster.gpu_operator.version, cluster.gpu_operator.namespace) == (
        "v26.7.1",
        "gpu-operator",
    )
    assert cluster.validation.image == (
        "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04"
    )
    assert (cluster.validation.namespace, cluster.validation.timeout_seconds) == (
        "gpu-validation",
        600,
    )
    assert cluster.kubernetes.identifier == "gpu-cluster-test"
    assert (cluster.platform, cluster.charts.directory) == ("device-plugin", None)
    assert (pool.size, pool.gpus) == (4, 32)


def test_a_pool_without_gpus_has_no_gpu_label_and_no_taint() -> None:
    pools = [{"name": "system", "nodes": ["system-1"], "gpusPerNode": 0}]
    pool = load(document(pools=pools, hosts=[])).pools[0]
    assert (dict(pool.labels), pool.taints, pool.gpus) == ({}, (), 0)


def test_hosts_take_user_and_port_of_ssh_unless_they_have_their_own() -> None:
    hosts = document()["hosts"]
    hosts[1] |= {"user": "admin", "port": 2222}
    first, second = load(document(hosts=hosts, ssh={"user": "ubuntu", "port": 2022})).hosts
    assert (first.user, first.port) == ("ubuntu", 2022)
    assert (second.user, second.port) == ("admin", 2222)


@pytest.mark.parametrize(("source", "toolkit"), [("preinstalled", False), ("operator", True)])
def test_the_operator_configures_the_runtime_where_it_brings_the_driver(
    source: str, toolkit: bool
) -> None:
    cluster = load(document(platform="gpu-operator", driver={"source": source}))
    assert cluster.gpu_operator.toolkit is toolkit
    assert cluster.pools[0].driver.managed_by_operator is toolkit


def test_a_full_document_is_read_whole() -> None:
    cluster = load(FULL)
    assert cluster.kubernetes.identifier == "i"
    assert cluster.ssh.bastion is not None
    assert cluster.device_plugin.config.offered("nvidia.com/gpu", 8) == ("nvidia.com/gpu", 32)
    assert cluster.device_plugin.config.document() == {
        "version": "v1",
        "flags": {
            "migStrategy": "none",
            "failOnInitError": True,
            "nvidiaDriverRoot": "/",
            "plugin": {
                "passDeviceSpecs": False,
                "deviceListStrategy": ["volume-mounts"],
                "deviceIDStrategy": "index",
            },
        },
        "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}},
    }


def test_the_plugins_configuration_has_no_empty_sections() -> None:
    assert "sharing" not in load(document()).device_plugin.config.document()


@given(st.sampled_from(PLACES), st.text("abcdefghijklmnopqrstuvwxyzNPSI_-", min_size=1))
def test_any_unknown_key_is_refused_with_the_nearest_one(
    place: tuple[str | int, ...], key: str
) -> None:
    known = fields(model_of(place))
    if key in known:
        return
    value = copy.deepcopy(FULL)
    at(value, place)[key] = None
    (problem,) = refused(value)
    assert problem.location == (*place, key)
    if "secret" in problem.found:
        return
    if " takes " in problem.cure and "nearest" not in problem.cure:
        # The key, written in another way, stands in another section.
        paths = problem.cure.removeprefix(REMOVE + "; ").partition(" takes ")[0].split(" or ")
        assert {plain(path.rpartition(".")[2]) for path in paths} == {plain(key)}
        return
    suggested = problem.cure.rpartition(' "')[2].rstrip('"')
    best = max(similarity(key, other) for other in known)
    assert similarity(key, suggested) == best
    assert suggested in known


@given(st.sampled_from(PLACES), st.data())
def test_a_key_with_one_letter_too_many_is_answered_with_the_key(
    place: tuple[str | int, ...], data: st.DataObject
) -> None:
    known = fields(model_of(place))
    key = data.draw(st.sampled_from(sorted(known)))
    position = data.draw(st.integers(0, len(key)))
    mistyped = f"{key[:position]}x{key[position:]}"
    value = copy.deepcopy(FULL)
    at(value, place)[mistyped] = given_value = at(value, place).pop(key, None)
    # Without a value there is nothing to keep.
    nothing = f'remove it; the nearest key here is "{key}"'
    expected = nothing if given_value is None else f'rename it to "{key}"'
    assert any(
        problem.location == (*place, mistyped) and problem.cure == expected
        for problem in refused(value)
    )


def test_python_names_of_keys_are_refused_in_documents() -> None:
    pools = [{"name": "a100", "nodes": ["gpu-[1-4]"], "gpus_per_node": 8}]
    (problem,) = refused(document(pools=pools))
    assert problem.cure == 'rename it to "gpusPerNode"'


MISTAKES: dict[str, Any] = {
    "version": 1,
    "kubernetes": {"context": ""},
    "platform": "device-plugins",
    "driver": {"version": "newest"},
    "runtime": {"cdi": "no"},
    "validation": {"timeoutSeconds": 0},
    "ssh": {"user": "not a user"},
    "devicePlugin": {"namespace": "Not_A_Namespace"},
    "charts": {"directory": 5},
}


@given(st.sets(st.sampled_from(sorted(MISTAKES)), min_size=1))
def test_every_problem_is_reported_at_once(sections: set[str]) -> None:
    problems = refused(document(**{section: MISTAKES[section] for section in sections}))
    assert {problem.location[0] for problem in problems} == sections


def test_a_mistake_in_one_part_does_not_hide_a_contradiction_between_others() -> None:
    hosts = document()["hosts"]
    hosts[1]["address"] = hosts[0]["address"]
    hosts.append({"name": "gpu-3", "address": "912.168.0.105", "hostKey": KEYS[0]})
    paths = [problem.place for problem in refused(document(hosts=hosts, gpuOperator={}))]
    assert paths == ["hosts[1].address", "hosts[2].address", "gpuOperator"]


def test_an_example_with_quotes_stands_in_one_pair_of_double_quotes() -> None:
    image = f"registry.example.com/test@sha256:{64 * 'a'}"
    made = document(validation={"tests": {"own": {"image": image, "gpus": 8}}})
    (fault,) = refused(made)
    assert fault.cure == """add "command: ['all_reduce_perf', '-g', '8']\""""


def test_problems_stand_in_the_order_of_the_document() -> None:
    value = {"platform": "x", **document(), "version": "v0"}
    value = {"zebra": 1, **value, "platform": "x"}
    assert [problem.place for problem in refused(value)] == ["zebra", "platform", "version"]


@pytest.mark.parametrize("version", ["v2", "v10"])
def test_a_newer_format_is_refused_by_its_version_alone(version: str) -> None:
    (problem,) = refused(document(version=version, sectionOfTheFuture={}))
    assert problem.place == "version"
    assert problem.found == f'"{version}"'
    assert "a newer release of this program" in problem.cure


@pytest.mark.parametrize("version", ["v0", "v01", "1", 2, "V2"])
def test_what_is_no_later_version_gets_the_version_to_write(version: Any) -> None:
    (problem,) = refused(document(version=version))
    assert problem.cure in ('write "v1"', "write v1, for example")


@pytest.mark.parametrize("value", [None, [], "text", 5])
def test_something_that_is_no_mapping_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="a mapping with version"):
        load(value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    ),
    st.sampled_from(sorted(document() | FULL)),
)
def test_any_value_in_any_section_is_accepted_or_refused_with_problems(
    value: Any, section: str
) -> None:
    problems: tuple[Fault, ...] | None = None
    try:
        load(document(**{section: value}))
    except ConfigError as error:
        problems = error.faults
    if problems is not None:
        assert problems
        assert all((p.place, p.found, p.wanted, p.cure) for p in problems)


def test_a_cluster_cannot_be_changed() -> None:
    cluster = load(document())
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        cluster.pools[0].gpus_per_node = 1
    with pytest.raises(TypeError, match="cannot be changed"):
        cluster.pools[0].labels["a"] = "b"
    with pytest.raises(TypeError, match="cannot be changed"):
        cluster.pools[0].labels.update(a="b")


def test_a_cluster_can_be_hashed_copied_pickled_and_written_as_json() -> None:
    cluster = load(FULL)
    assert hash(cluster) == hash(load(FULL))
    assert copy.deepcopy(cluster) == cluster
    assert pickle.loads(pickle.dumps(cluster)) == cluster  # noqa: S301
    assert json.loads(json.dumps(cluster.pools[0].labels)) == {"nvidia.com/gpu": "true"}


def test_what_was_loaded_loads_again_as_the_same() -> None:
    cluster = load(FULL)
    others = {"gpu_operator", "gpu_manager", "hami", "dra", "driver_installer"}
    written = cluster.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=others)
    assert load(written) == cluster.model_copy(update={"gpu_operator": GpuOperatorSettings()})


def test_warnings_name_what_will_not_do_what_was_meant() -> None:
    pools = document()["pools"]
    pools[0]["taints"] = ["nvidia.com/gpu=true:NoSchedule"]
    hosts = document()["hosts"]
    hosts[0]["hostKey"] = RSA
    hosts[1]["hostKey"] = RSA
    flags = {"plugin": {"deviceListStrategy": "cdi-annotations"}}
    cluster = load(
        document(
            pools=pools,
            hosts=hosts,
            runtime={"cdi": False},
            devicePlugin={"presence": "nfd", "config": {"flags": flags}},
        )
    )
    assert [warning.place for warning in warnings(cluster)] == [
        "hosts[0].hostKey",
        "hosts[1].hostKey",
        "hosts[1].hostKey",
        "runtime.cdi",
        "runtime.defaultRuntime",
    ]


def test_importing_the_settings_takes_neither_pulumi_nor_yaml() -> None:
    script = (
        "import sys, gpu_cluster.loading.loader; print([m for m in"
        " ('pulumi', 'yaml', 'grpc', 'rich', 'asyncssh') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def _pool(number: int, nodes: str) -> dict[str, Any]:
    return {"name": f"p{number}", "nodes": [nodes], "gpusPerNode": 1}


LONG: dict[str, tuple[dict[str, Any], str]] = {
    "pools": ({"pools": [_pool(n, f"n{n}") for n in range(201)]}, "201 pools"),
    "nodes": ({"pools": [_pool(n, "n[1-5000]") for n in range(100)]}, "500000 nodes"),
    "hosts": ({"hosts": [{}] * 5_001}, "5001 hosts"),
    "names": ({"maintenance": [f"n{n}-[1-5000]" for n in range(1_000)]}, "5000000 names"),
}


@pytest.mark.parametrize("name", LONG)
def test_a_list_that_is_longer_than_a_cluster_is_refused_before_its_names_are_made(
    name: str,
) -> None:
    parts, found = LONG[name]
    with pytest.raises(ConfigError) as raised:
        load(document(**parts))
    (fault,) = raised.value.faults
    assert fault.found == found


def test_a_section_below_a_foreign_key_is_moved_up_and_not_removed() -> None:
    (problem,) = refused(document(driver={"values": {"source": "preinstalled"}}))
    assert problem.cure == "move what stands below it one level up"


def test_a_key_is_renamed_only_if_the_right_key_takes_its_value() -> None:
    (problem,) = refused(document(validatio={"timeoutSeconds": 60}))
    assert problem.cure == 'rename it to "validation"'
    (problem,) = refused(document(validatio=True))
    assert problem.cure.startswith('remove it; "validation" takes ')


@pytest.mark.parametrize(
    ("sections", "cure"),
    [
        ({"platform": True}, "write device-plugin, for example"),
        ({"driver": {"source": "x y"}}, "write preinstalled, for example, or remove it"),
        ({"hosts": "x"}, "write [], for example, or remove it"),
    ],
)
def test_no_cure_writes_a_value_that_is_refused_again(sections: dict[str, Any], cure: str) -> None:
    (problem,) = refused(document(**{"hosts": [], **sections}))
    assert problem.cure == cure


def test_a_misspelled_key_whose_field_reads_its_siblings_is_answered() -> None:
    (problem,) = refused(document(devicePlugin={"versionx": "0.20.0"}))
    assert problem.cure == 'rename it to "version"'
