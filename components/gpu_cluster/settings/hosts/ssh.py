"""Section `ssh` of the stack file: how hosts are reached over SSH.

Private keys are not part of this section: they are Pulumi secrets with their own configuration
keys.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictInt

from gpu_cluster.base.address import Address
from gpu_cluster.base.host_key import HostKey, taken_from
from gpu_cluster.base.model import Model, OwnCure
from gpu_cluster.settings.hosts.user import Port, User


class Bastion(Model):
    """A jump host for all SSH connections; it accepts the same private key as the hosts."""

    address: Address = Field(
        description="an IPv4 address, an IPv6 address or a host name", examples=["192.0.2.10"]
    )
    port: Port = 22
    user: User = "root"
    host_key: Annotated[HostKey, OwnCure(taken_from("the bastion"))] = Field(
        description="the bastion's public key, as in /etc/ssh/ssh_host_ed25519_key.pub",
        examples=["ssh-ed25519 AAAA…"],
    )


class Reach(Model):
    """SSH settings of a pool that override the stack's; None means the stack's value."""

    user: User | None = None
    port: Port | None = None
    bastion: Bastion | None = Field(
        default=None, description="a mapping that describes the jump host, or null"
    )


class SshLimits(Model):
    """Limits of every connection and command."""

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


class SshSettings(SshLimits):
    """Default SSH settings of all hosts, and the limits of every connection and command.

    `perDialTimeoutSeconds` (15) and `dialErrorLimit` (10) have the meaning and default values of
    the inputs of pulumi-command 1.2.1's connection. `commandTimeoutSeconds` (600) stops a script on
    a host, because pulumi-command itself has no such limit. Each run may take 30 minutes more for
    installers, because a stopped installer leaves packages partly installed.
    """

    user: User = "root"
    port: Port = 22
    bastion: Bastion | None = Field(
        default=None, description="a mapping that describes the jump host"
    )
