"""Section `system` of the stack file: swap, modules, sysctl, firewall, SELinux and limits."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr

from gpu_cluster.base.document_cures import rename_to
from gpu_cluster.base.model import Freeze, FrozenDict, Model
from gpu_rules.faults import refuse, show

_MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_SYSCTL_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)+")
_PORTS = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?/(tcp|udp)")

MODULES = ("overlay", "br_netfilter")
"""Kernel modules that a node needs (Kubernetes documentation, "Container Runtimes")."""
SYSCTL: FrozenDict[str, str] = FrozenDict(
    {
        "net.bridge.bridge-nf-call-iptables": "1",
        "net.bridge.bridge-nf-call-ip6tables": "1",
        "net.ipv4.ip_forward": "1",
    }
)
"""Network settings that a node needs (Kubernetes documentation, "Container Runtimes")."""
IPV6_SYSCTL: FrozenDict[str, str] = FrozenDict(
    {"net.ipv6.conf.default.forwarding": "1", "net.ipv6.conf.all.forwarding": "1"}
)
"""Further settings for pods with IPv6 addresses.

Sources: Kubernetes documentation, "Dual-stack support with kubeadm"; kubernetes v1.34
cmd/kubeadm/app/preflight/checks.go (ipv6DefaultForwarding).
"""


class Firewall(StrEnum):
    """Change that the program makes to a host's firewall.

    `leave`: nothing. `rules`: open the ports that a node needs. `disable`: turn the firewall off.
    """

    LEAVE = "leave"
    RULES = "rules"
    DISABLE = "disable"


class Selinux(StrEnum):
    """SELinux mode; `leave` means no change, the other values are those of selinux/config(5)."""

    LEAVE = "leave"
    ENFORCING = "enforcing"
    PERMISSIVE = "permissive"
    DISABLED = "disabled"


class LimitItem(StrEnum):
    """Items of limits.conf(5) whose limits GPU jobs often reach."""

    MEMLOCK = "memlock"
    NOFILE = "nofile"
    NPROC = "nproc"
    STACK = "stack"


def _validate_kernel_module(text: str) -> str:
    if _MODULE.fullmatch(text) is None:
        raise refuse(
            show(text),
            "a kernel module: letters, digits, '-' and '_'",
            "write a name such as nvidia_uvm",
        )
    return text


def _sysctl_key(text: str) -> str:
    if _SYSCTL_KEY.fullmatch(text) is None:
        raise refuse(
            show(text),
            "names joined by dots",
            rename_to("vm.max_map_count") + ", for example",
        )
    return text


def _sysctl_value(text: str) -> str:
    if not text or text != text.strip() or not text.isprintable():
        raise refuse(show(text), "one printable line", 'write it in quotes, such as "1"')
    return text


def _validate_port_range(text: str) -> str:
    match = _PORTS.fullmatch(text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last <= 65535:
        raise refuse(
            show(text),
            "a port or a range with its protocol",
            "write a value such as 179/tcp",
        )
    return text


def _validate_limits(limits: dict[LimitItem, int]) -> dict[LimitItem, int]:
    if limits.get(LimitItem.NOFILE, 0) < 0:
        raise refuse(
            "nofile -1",
            "a number: nobody can log in if nofile is above fs.nr_open",
            "write nofile: 1048576",
        )
    return limits


class SystemSettings(Model):
    """Settings of a host's operating system; all of them persist over a reboot.

    `sysctl` adds to the settings that Kubernetes needs. With `firewall: rules`, the ports in
    `firewallPorts` (such as a CNI's `8472/udp`) are opened in addition to those of the page "Ports
    and Protocols" (Kubernetes documentation). `limits` are the soft and hard limits of every login,
    in the units of limits.conf(5): KiB for memlock and stack, -1 for unlimited.
    """

    swap_off: StrictBool = Field(
        default=True, description="true or false: swap off, as kubelet wants it", examples=["true"]
    )
    modules: tuple[Annotated[StrictStr, AfterValidator(_validate_kernel_module)], ...] = Field(
        default=MODULES, description="a list of kernel modules to load", examples=["[overlay]"]
    )
    sysctl: Annotated[
        dict[
            Annotated[StrictStr, AfterValidator(_sysctl_key)],
            Annotated[StrictStr, AfterValidator(_sysctl_value)],
        ],
        Freeze,
    ] = Field(
        default=FrozenDict({}),
        description='a mapping of kernel settings to texts, such as vm.max_map_count: "262144"',
        examples=['{vm.max_map_count: "262144"}'],
    )
    firewall: Firewall = Field(
        default=Firewall.LEAVE, description="leave, rules or disable", examples=["leave"]
    )
    firewall_ports: tuple[Annotated[StrictStr, AfterValidator(_validate_port_range)], ...] = Field(
        default=(), description="a list of ports such as 8472/udp", examples=["[8472/udp]"]
    )
    selinux: Selinux = Field(
        default=Selinux.LEAVE,
        description="leave, enforcing, permissive or disabled",
        examples=["leave"],
    )
    limits: Annotated[
        dict[LimitItem, Annotated[StrictInt, Field(ge=-1)]],
        AfterValidator(_validate_limits),
        Freeze,
    ] = Field(
        default=FrozenDict({}),
        description="a mapping of memlock, nofile, nproc or stack to a whole number, -1 unlimited",
        examples=["{memlock: -1}"],
    )

    def all_sysctl(self, *, ipv6: bool) -> dict[str, str]:
        """Return the sysctl settings that Kubernetes needs, overridden by the declared ones.

        Settings of router advertisements come first: when a host begins to forward IPv6, Linux
        removes the default routes that came by them, unless `accept_ra` is 2.

        Args:
            ipv6: Whether pods or Services have IPv6 addresses.
        """
        first = {key: value for key, value in self.sysctl.items() if key.endswith(".accept_ra")}
        return {**first, **SYSCTL, **(IPV6_SYSCTL if ipv6 else {}), **self.sysctl}
