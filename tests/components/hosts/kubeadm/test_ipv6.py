"""Clusters with IPv6: hosts forward it, keep their routes, and address families fit together."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_rules.faults import ConfigError
from tests.proofs.hosts.initialized import declared, parameters
from tests.proofs.world.hosts import shell

V6 = {"podSubnet": "fd00:10::/56", "serviceSubnet": "fd00:20::/112"}
DUAL = {"podSubnet": "10.1.0.0/16,fd00:10::/56", "serviceSubnet": "10.2.0.0/16,fd00:20::/112"}
ROUTE = "{dest} 00 {dest} 00 fe800000000000000000000000000001 00000400 1 0 {flags} {device}\n"
BY_KERNEL, BY_HAND = "00450003", "00000003"
"""Flags of a route from a router advertisement, and of one that a person or a daemon set."""


@pytest.mark.promise(
    "Hosts of a cluster with IPv6 forward it, also those that join; others are not changed so."
)
@pytest.mark.parametrize("role", ["control-plane", "gpu-worker"])
@pytest.mark.parametrize("init", [V6, DUAL, {}], ids=["IPv6 alone", "both", "IPv4 alone"])
def test_hosts_of_a_cluster_with_ipv6_forward_it(role: str, init: dict[str, str]) -> None:
    given = parameters(role, **init)
    forwarding = {"net.ipv6.conf.default.forwarding", "net.ipv6.conf.all.forwarding"}
    assert given.keys() & forwarding == (forwarding if init else set())
    if init:
        assert given["net.ipv4.ip_forward"] == given["net.ipv6.conf.all.forwarding"] == "1"


@pytest.mark.promise(
    "Address ranges and addresses of IPv4 and IPv6 that don't fit together are refused at loading."
)
@pytest.mark.parametrize(
    ("init", "found"),
    [
        ({"podSubnet": "fd00:10::/56"}, "podSubnet: found IPv6, with IPv4 in serviceSubnet"),
        ({"serviceSubnet": "fd00:20::/112"}, "podSubnet: found IPv4, with IPv6 in serviceSubnet"),
        (
            {**DUAL, "serviceSubnet": "fd00:20::/112,10.2.0.0/16"},
            "podSubnet: found IPv4 and IPv6, with IPv6 and IPv4 in serviceSubnet",
        ),
        (
            {"podSubnet": "10.1.0.0/16,fd00:10::/56"},
            "podSubnet: found IPv4 and IPv6, with IPv4 in serviceSubnet",
        ),
        (
            {"podSubnet": "10.1.0.0/16,10.3.0.0/16"},
            "podSubnet: found two address ranges of IPv4; wanted: one of IPv4 and one of IPv6",
        ),
        ({"podSubnet": "10.1.0.1/16"}, "podSubnet: found 10.1.0.1/16 has host bits set"),
        ({**V6, "advertiseAddress": "192.0.2.1"}, "advertiseAddress: found an address of IPv4"),
        ({"advertiseAddress": "2001:db8::1"}, "advertiseAddress: found an address of IPv6"),
        ({**DUAL, "advertiseAddress": "2001:db8::1"}, "advertiseAddress: found an address of IPv6"),
    ],
)
def test_families_that_do_not_fit_are_refused(init: dict[str, str], found: str) -> None:
    with pytest.raises(ConfigError) as refused:
        declared(**init)
    assert f"kubernetesPackages.init.{found}" in str(refused.value)


@pytest.mark.parametrize("init", [V6, DUAL, {**V6, "advertiseAddress": "2001:db8::1"}])
def test_families_that_fit_load(init: dict[str, str]) -> None:
    assert declared(**init).hosts


@pytest.mark.promise(
    "A host whose IPv6 default route would vanish is named before it is made to forward IPv6."
)
@pytest.mark.parametrize(
    ("flags", "more", "is_refused"),
    [
        (BY_KERNEL, "", True),
        (BY_KERNEL, '"$@" net.ipv6.conf.eth0.accept_ra 2\n', False),
        (BY_HAND, "", False),
    ],
    ids=["advertised", "advertised and kept", "by hand"],
)
def test_a_default_route_that_would_vanish_is_named(
    tmp_path: Path, flags: str, more: str, is_refused: bool
) -> None:
    table = tmp_path / "proc/net/ipv6_route"
    table.parent.mkdir(parents=True)
    table.write_text(
        ROUTE.format(dest="0" * 32, flags=flags, device="eth0")
        + ROUTE.format(dest="0" * 32, flags="00200200", device="lo")
    )
    lines = (
        f'each_sysctl() {{\n{more}"$@" net.ipv6.conf.all.forwarding 1\n}}\n'
        "GC_MODULES=br_netfilter\ncheck_sysctl\nrefuse_problems\n"
    )
    done = shell.run(tmp_path, ("library/base", "library/files", "modules", "sysctl"), lines)
    assert (done.returncode == 1) is is_refused, done
    assert ("a default route of eth0 from router advertisements" in done.stderr) is is_refused
    assert ('net.ipv6.conf.eth0.accept_ra: "2" in system.sysctl' in done.stderr) is is_refused
