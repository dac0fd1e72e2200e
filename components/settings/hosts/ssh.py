"""How hosts are reached. Keys are secrets and have configuration keys of their own."""

from __future__ import annotations

from pydantic import Field, StrictInt

from components.base.address import Address
from components.base.host_key import HostKey
from components.base.model import Model
from components.settings.hosts.user import Port, User


class Bastion(Model):
    """A jump host: every connection goes through it, with the same private key."""

    address: Address = Field(
        description="an IPv4 address, an IPv6 address or a host name", examples=["192.0.2.10"]
    )
    port: Port = 22
    user: User = "root"
    host_key: HostKey = Field(
        description="the bastion's public key, as in /etc/ssh/ssh_host_ed25519_key.pub",
        examples=["ssh-ed25519 AAAA…"],
    )


class Reach(Model):
    """How hosts are reached, where that differs from the stack's; None: as the stack's."""

    user: User | None = None
    port: Port | None = None
    bastion: Bastion | None = Field(
        default=None, description="a mapping that describes the jump host, or null"
    )


class SshSettings(Model):
    """Defaults for all hosts, and the limits of every connection and command.

    `perDialTimeoutSeconds` (15) and `dialErrorLimit` (10) are inputs of the same meaning, with
    the same defaults, in the connection of pulumi-command 1.2.1. `commandTimeoutSeconds` (600)
    ends a script on a host, because the plugin itself never ends one. What installers may take
    (30 minutes for each run) comes on top: one that is killed leaves packages half installed.
    """

    user: User = "root"
    port: Port = 22
    bastion: Bastion | None = Field(
        default=None, description="a mapping that describes the jump host"
    )
    per_dial_timeout_seconds: StrictInt = Field(
        default=15, ge=1, le=600, description="a whole number from 1 to 600, seconds", examples=[15]
    )
    dial_error_limit: StrictInt = Field(
        default=10,
        ge=1,
        le=1000,
        description="a whole number from 1 to 1000, attempts",
        examples=[10],
    )
    command_timeout_seconds: StrictInt = Field(
        default=600,
        ge=10,
        le=7200,
        description="a whole number from 10 to 7200, seconds",
        examples=[600],
    )
