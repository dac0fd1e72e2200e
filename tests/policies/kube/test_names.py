"""Names have the grammar of Kubernetes."""

from __future__ import annotations

import pytest

from gpu_rules.kube.names import (
    is_container_resource,
    is_dns_label,
    is_dns_subdomain,
    is_extended_resource,
    is_label_value,
    is_qualified_name,
)

LONG = "a" * 63


@pytest.mark.parametrize(
    ("text", "label", "subdomain", "value"),
    [
        ("gpu-1", True, True, True),
        ("gpu-1.example.com", False, True, True),
        (LONG, True, True, True),
        (f"{LONG}a", False, True, False),
        (f"{LONG}a.example.com", False, True, False),
        (".".join([LONG] * 3 + ["a" * 61]), False, True, False),
        (".".join([LONG] * 4), False, False, False),
        ("", False, False, True),
        ("a..b", False, False, True),
        ("a.-b", False, False, True),
        ("-a", False, False, False),
        ("a-", False, False, False),
        ("a.", False, False, False),
        ("A_b", False, False, True),
        ("a\n", False, False, False),
        ("ä", False, False, False),
        ("a/b", False, False, False),
    ],
)
def test_labels_subdomains_and_values(text: str, label: bool, subdomain: bool, value: bool) -> None:
    assert (is_dns_label(text), is_dns_subdomain(text)) == (label, subdomain)
    assert is_label_value(text) is value


@pytest.mark.parametrize(
    ("name", "qualified", "extended", "in_container"),
    [
        ("nvidia.com/gpu", True, True, True),
        (f"{LONG}a.com/gpu", True, True, True),
        ("x/y", True, True, True),
        (f"nvidia.com/{LONG}", True, True, True),
        (f"nvidia.com/{LONG}a", False, False, False),
        ("nvidia.com/gpu.", False, False, False),
        ("nvidia.com/", False, False, False),
        ("/gpu", False, False, False),
        ("a/b/c", False, False, False),
        ("Nvidia.com/gpu", False, False, False),
        ("requests.nvidia.com/gpu", True, False, False),
        ("x.kubernetes.io/gpu", True, False, True),
        (f"{'.'.join([LONG] * 3)}.{'a' * 53}/gpu", True, False, False),
        ("cpu", True, False, True),
        ("hugepages-2Mi", True, False, True),
        ("gpu", True, False, False),
    ],
)
def test_names_of_resources(name: str, qualified: bool, extended: bool, in_container: bool) -> None:
    assert is_qualified_name(name) is qualified
    assert is_extended_resource(name) is extended
    assert is_container_resource(name) is in_container
