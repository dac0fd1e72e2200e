"""Addresses, keys and names of Kubernetes, as a stack file may write them."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from gpu_cluster.base.address import canonical, check_address
from gpu_cluster.base.host_key import check_host_key
from gpu_cluster.base.names import label_value, own_key, own_label_key, qualified_key
from tests.fixtures.documents import KEYS, RSA


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


@pytest.mark.parametrize(
    ("key", "good"),
    [
        ("topology.kubernetes.io/zone", True),
        ("topology.kubernetes.io/region", True),
        ("topology.kubernetes.io/rack", False),
        ("kubernetes.io/os", False),
    ],
)
def test_only_a_nodes_place_is_a_label_of_kubernetes_that_people_set(key: str, good: bool) -> None:
    if good:
        assert own_label_key(key) == key
    else:
        with pytest.raises(PydanticCustomError, match="which Kubernetes keeps for itself"):
            own_label_key(key)


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
