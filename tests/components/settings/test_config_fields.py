"""Fields of the stack file: addresses, names, ranges and host keys, and rules between sections."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from components.base.address import canonical, check_address
from components.base.host_key import check_host_key
from components.base.names import label_value, own_key, qualified_key
from components.loading.loader import load
from components.settings.nodes.node_range import NODE_LIMIT, expand
from components.settings.nodes.taint import Taint
from tests.fixtures.documents import KEYS, RSA, document, refused

LABEL = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("gpu-1", ["gpu-1"]),
        ("gpu-[1-3]", ["gpu-1", "gpu-2", "gpu-3"]),
        ("gpu-[08-11]", ["gpu-08", "gpu-09", "gpu-10", "gpu-11"]),
        ("gpu-[0-2]", ["gpu-0", "gpu-1", "gpu-2"]),
        ("gpu-[1,3-4].example.com", [f"gpu-{n}.example.com" for n in (1, 3, 4)]),
        ("r[1-2]-n[1-2]", ["r1-n1", "r1-n2", "r2-n1", "r2-n2"]),
    ],
)
def test_a_range_stands_for_these_names(pattern: str, names: list[str]) -> None:
    assert list(expand(pattern)) == names


def test_a_range_of_800_keeps_its_width() -> None:
    names = expand("gpu-[001-800]")
    assert (len(names), names[0], names[-1]) == (800, "gpu-001", "gpu-800")


@pytest.mark.parametrize(
    "pattern",
    [
        *("gpu-[4-1]", "gpu-[1-4", "gpu-1-4]", "gpu-[]", "gpu-[a-c]", "gpu-[1-]", "gpu-[-4]"),
        *("gpu-[1--4]", "gpu-[01-100]", "gpu-[1-08]", "GPU-[1-4]", "gpu_[1-4]", "[[1-2]]", ""),
        *("gpu-[1-999999999]", "a[1-5000]b[1-5000]", "gpu-[1-2]-", "-[1-2]", "gpu 1"),
    ],
)
def test_a_malformed_range_is_refused(pattern: str) -> None:
    with pytest.raises(PydanticCustomError):
        expand(pattern)


@given(st.integers(0, 900), st.integers(1, 300), st.booleans())
def test_a_range_is_every_name_from_its_first_to_its_last(
    first: int, length: int, padded: bool
) -> None:
    last = first + length - 1
    width = len(str(last)) if padded else 1
    names = [f"gpu-{number:0{width}d}" for number in range(first, last + 1)]
    assert list(expand(f"gpu-[{first:0{width}d}-{last}]")) == names


def test_a_pool_may_have_as_many_nodes_as_kubernetes_supports_and_no_more() -> None:
    assert len(expand(f"n-[1-{NODE_LIMIT}]")) == NODE_LIMIT
    pools = [{"name": "a", "nodes": ["n-[1-4000]", "m-[1-1001]"], "gpusPerNode": 1}]
    (problem,) = refused(document(pools=pools, hosts=[]))
    assert problem.found == "5001 nodes"


@given(st.ip_addresses())
def test_an_address_of_a_machine_is_accepted_and_no_other(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    broadcast = str(address) == "255.255.255.255"
    if address.is_multicast or address.is_unspecified or broadcast:
        with pytest.raises(PydanticCustomError):
            check_address(str(address))
    else:
        assert check_address(str(address)) == str(address)


@given(st.lists(st.integers(0, 999), min_size=4, max_size=4))
def test_four_dotted_numbers_are_an_ipv4_address_or_refused(numbers: list[int]) -> None:
    text = ".".join(map(str, numbers))
    if max(numbers) > 255:
        with pytest.raises(PydanticCustomError, match="a valid IPv4 address"):
            check_address(text)


@pytest.mark.parametrize(
    "text",
    [
        *("912.168.0.105", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.0x4", "host.123", "1.2.3.4/24"),
        *("", " gpu-1", "gpu_1", "-gpu", "gpu-.example.com", "a..b", "ssh://gpu-1", "root@gpu-1"),
        *("192.0.2.1:22", "[2001:db8::1]", "[2001:db8::1]:22", "fe80::1%eth0", "::", "0.0.0.0"),  # noqa: S104
        *("224.0.0.1", "255.255.255.255", "2001:db8:::1", "x" * 64, "٣.2.3.4"),
    ],
)
def test_this_is_no_address_of_a_machine(text: str) -> None:
    with pytest.raises(PydanticCustomError):
        check_address(text)


@pytest.mark.parametrize("text", ["gpu-1", "gpu-1.example.com", "1gpu", "gpu-1.example.com."])
def test_this_is_a_host_name(text: str) -> None:
    assert check_address(text) == text


@pytest.mark.parametrize(
    ("one", "other"),
    [("2001:db8::1", "2001:0DB8:0::1"), ("GPU-1.example.com", "gpu-1.example.com.")],
)
def test_two_ways_to_write_one_address_are_equal(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("key", "good"),
    [
        ("nvidia.com/gpu", True),
        ("gpu", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("example.com/", False),
        ("/gpu", False),
        ("Example.com/gpu", False),
        ("a/b/c", False),
        ("-gpu", False),
        ("gpu.", False),
        (f"{'a' * 254}/x", False),
        (".".join(["a" * 63] * 3) + "." + "a" * 61 + "/x", True),
    ],
)
def test_keys_follow_kubernetes_syntax(key: str, good: bool) -> None:
    if good:
        assert qualified_key(key) == key
    else:
        with pytest.raises(PydanticCustomError):
            qualified_key(key)


@pytest.mark.parametrize(("value", "good"), [("", True), ("A_1.b", True), ("a b", False)])
def test_label_values_follow_kubernetes_syntax(value: str, good: bool) -> None:
    if good:
        assert label_value(value) == value
    else:
        with pytest.raises(PydanticCustomError):
            label_value(value)


@pytest.mark.parametrize(
    ("key", "good"),
    [
        ("kubernetes.io/os", False),
        ("topology.kubernetes.io/zone", False),
        ("feature.node.kubernetes.io/pci-10de.present", False),
        ("k8s.io/x", False),
        ("x-k8s.io/x", True),
        ("mykubernetes.io/x", True),
        ("node.kubernetes.io/instance-type", True),
        ("node-role.kubernetes.io/gpu", True),
        ("node-restriction.kubernetes.io/tenant", True),
        ("nvidia.com/gpu", True),
    ],
)
def test_kubernetes_own_prefixes_are_kept_for_it(key: str, good: bool) -> None:
    if good:
        assert own_key(key) == key
    else:
        with pytest.raises(PydanticCustomError, match="which Kubernetes keeps for itself"):
            own_key(key)


ECDSA = (
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBOiPZ7xQ3j6ipoU1nrquj"
    "TzWrZy3Y54AfPGaEnILMxQfKOjWD6o1url+FGnk0xkLS93ZsFUpt8UjOD2EHTIW9e0="
)
RSA_1024 = (
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQDpQwIaGqMH8o81VkGgVLk2Yors4GWjbwG3Mk8fLYn+pbrxX1htupp6m"
    "9tpOhGWICRajB7SB3THGbmLWGL4lOAbpJ7MkCTzLjYZYnnD9ZUx+3VKybjc4XOFaxc6D7EqSufF5/n1sBTidItfkGGhAl"
    "tsE73k8A40QOeeHlYJbRJsuQ=="
)


@pytest.mark.parametrize("key", [KEYS[0], ECDSA, RSA])
def test_a_real_key_is_accepted_without_its_comment(key: str) -> None:
    assert check_host_key(f"{key} root@gpu-1\n") == key


@given(st.sampled_from([KEYS[0], ECDSA, RSA]), st.data())
def test_a_cut_key_is_refused(key: str, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(key) - 3))
    with pytest.raises(PydanticCustomError):
        check_host_key(key[:end])


@pytest.mark.parametrize(
    "key",
    [
        RSA_1024,
        KEYS[0].replace("ssh-ed25519", "ssh-rsa"),
        KEYS[0].replace("ssh-ed25519 ", "ssh-dss "),
        f"gpu-1 {KEYS[0]}",
        KEYS[0].split()[1],
        "ssh-ed25519",
        "",
    ],
)
def test_what_is_no_strong_key_of_its_type_is_refused(key: str) -> None:
    with pytest.raises(PydanticCustomError):
        check_host_key(key)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("nvidia.com/gpu=present:NoSchedule", ("nvidia.com/gpu", "present", "NoSchedule")),
        ("dedicated:NoExecute", ("dedicated", "", "NoExecute")),
        ("dedicated=:PreferNoSchedule", ("dedicated", "", "PreferNoSchedule")),
    ],
)
def test_a_taint_is_read_from_its_text(text: str, parts: tuple[str, str, str]) -> None:
    taint = Taint.model_validate(text)
    assert (taint.key, taint.value, taint.effect) == parts
    assert Taint.model_validate(str(taint)) == taint


def test_the_node_controllers_taints_are_refused() -> None:
    pools = document()["pools"]
    pools[0]["taints"] = ["node.kubernetes.io/unschedulable:NoSchedule"]
    (problem,) = refused(document(pools=pools))
    assert problem.place == "pools[0].taints[0].key"


def _hosts(**changed: Any) -> list[dict[str, Any]]:
    hosts: list[dict[str, Any]] = document()["hosts"]
    hosts[1] |= changed
    return hosts


@pytest.mark.parametrize(
    ("sections", "path", "wanted"),
    [
        ({"hosts": _hosts(name="gpu-1", node="gpu-2")}, "hosts[1].name", "each host name once"),
        ({"hosts": _hosts(node="gpu-1")}, "hosts[1].node", "one host for each node"),
        ({"hosts": _hosts(role="cpu-worker")}, "hosts[1].role", "outside the pools with GPUs"),
        ({"hosts": _hosts(node="cpu-1")}, "hosts[1].node", "in one of the pools"),
        ({"gpuOperator": {}}, "gpuOperator", "only the section of the chosen platform"),
        ({"driver": {"source": "operator"}}, "driver.source", "only with platform gpu-operator"),
        (
            {"platform": "gpu-operator", "devicePlugin": {}},
            "devicePlugin",
            "only the section of the chosen platform",
        ),
    ],
)
def test_parts_that_contradict_each_other_are_refused(
    sections: dict[str, Any], path: str, wanted: str
) -> None:
    (problem,) = refused(document(**sections))
    assert problem.place == path
    assert wanted in problem.wanted


def test_one_address_with_two_ports_is_two_hosts() -> None:
    assert len(load(document(hosts=_hosts(address="192.0.2.1", port=2222))).hosts) == 2


def test_a_host_may_stand_for_a_node_that_a_selector_finds() -> None:
    pools = [
        {"name": "l4", "selector": {"example.com/gpu": "l4"}, "count": 2, "gpusPerNode": 4},
    ]
    assert len(load(document(pools=pools)).hosts) == 2


def test_two_pools_with_the_same_selector_are_refused() -> None:
    pool = {"selector": {"example.com/gpu": "l4"}, "count": 2, "gpusPerNode": 4}
    problems = refused(document(pools=[{"name": "a", **pool}, {"name": "b", **pool}], hosts=[]))
    assert [problem.place for problem in problems] == ["pools[1].selector"]
