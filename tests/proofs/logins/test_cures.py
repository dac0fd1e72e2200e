"""The cure of each failed login is followed on the real sshd: the next login works."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import asyncssh
import pytest

from gpu_cluster.desired.host import Target
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.observed.inspect import observe_hosts
from gpu_cluster.ssh.host_keys import presented
from gpu_cluster.ssh.login import LoginFailed
from tests.proofs.advice.rows import Record, row_of
from tests.proofs.logins import rig as rigs
from tests.proofs.logins.rig import Rig

pytestmark = pytest.mark.slow
PROBING = 60
"""Seconds for the probe on a busy machine."""
Act = Callable[[Rig, Target], Target | None]
"""Does what a cure says; returns the target as the stack file declares it then, None: unchanged."""


def command(text: str) -> Act:
    """Return the act of running a command as root on the host."""

    def act(rig: Rig, target: Target) -> None:
        rig.run(text.format(user=target.user))

    return act


def setting(name: str, key: str, value: str) -> Act:
    """Return the act of changing a line of a server's sshd_config and restarting the server."""

    def act(rig: Rig, target: Target) -> None:
        rig.run(
            f"sed -i '/^{key} /d' /etc/ssh/{name}.conf; "
            f"sed -i '1i {key} {value}' /etc/ssh/{name}.conf"
        )
        restart(name)(rig, target)

    return act


def restart(name: str) -> Act:
    """Return the act of restarting a server."""

    def act(rig: Rig, target: Target) -> None:
        jump = target.bastion
        port = jump.port if jump and name.startswith(("jump", "nofw", "nopermit")) else target.port
        rig.stop(name)
        rig.start(name, port)

    return act


def declared(**changes: Any) -> Act:
    """Return the act of changing the stack file."""
    return lambda _, target: dataclasses.replace(target, **changes)


def key_added(name: str) -> Act:
    """Return the act of adding the key's public half to the keys that a server accepts."""

    def act(rig: Rig, _: Target) -> None:
        rig.run(f"echo '{rig.public_key}' >>/etc/ssh/keys-{name}")

    return act


def _started_behind(rig: Rig, target: Target) -> Target:
    assert target.bastion is not None
    return rig.through(target.bastion.port, rig.sshd("started"))


def _shown_key(rig: Rig, target: Target) -> Target:
    shown = rig.run("ssh-keygen -lf /run/gpu-cluster-ssh/host_key").split()[1]
    assert shown == asyncssh.import_public_key(rig.host_key).get_fingerprint()
    return dataclasses.replace(target, host_key=rig.host_key)


def _as_ubuntu(rig: Rig, target: Target) -> Target:
    return rig.target(rig.sshd("ubuntu"), rig.user("ubuntu"))


NOPASSWD = command("echo '{user} ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/{user}")
METHODS = "AuthenticationMethods"
CURES: dict[str, Act] = {
    "max_startups": setting("startups", "MaxStartups", "10:30:100"),
    "other_host_key": _shown_key,
    "key_not_installed": key_added("nokey"),
    "unknown_user": declared(user="root"),
    "no_root_login": setting("noroot", "PermitRootLogin", "prohibit-password"),
    "user_not_allowed": setting("allow", "AllowUsers", "admin allow"),
    "open_home": command("chmod 755 /home/openhome"),
    "locked_account": command("usermod -p '*' locked"),
    "no_keys_accepted": setting("nokeys", "PubkeyAuthentication", "yes"),
    "password_after_key": setting("second", METHODS, "publickey"),
    "code_after_key": setting("code", METHODS, "publickey"),
    "expired_account": command("chage -E -1 {user}"),
    "booting_system": command("rm /run/nologin-boot"),
    "access_file": command("rm /etc/security/access-rig.conf; touch /etc/security/access-rig.conf"),
    "expired_password": command("chage -M -1 {user}; chage -d 20000 {user}"),
    "root_of_cloud_image": _as_ubuntu,
    "key_for_backups": command('sed -i \'s/^command="[^"]*" //\' /etc/ssh/keys-backups'),
    "start_file_exits": command("rm /home/starts/.bashrc"),
    "nologin_shell": command("chsh -s /bin/sh {user}"),
    "no_sessions": setting("sessions", "MaxSessions", "10"),
    "no_sudo": setting("nosudo", "SetEnv", "PATH=/usr/bin:/bin"),
    "sudo_password": NOPASSWD,
    "sudo_for_others": NOPASSWD,
    "sudoers_writable": command("chmod 440 /etc/sudoers.d/{user}"),
    "sudo_terminal": command("echo 'Defaults:{user} !requiretty' >>/etc/sudoers.d/{user}"),
    "no_forwarding": setting("nofw", "AllowTcpForwarding", "yes"),
    "no_forwarding_there": setting("nopermit", "PermitOpen", "any"),
    "closed_port_behind_bastion": _started_behind,
    "unknown_name_at_bastion": declared(address="127.0.0.1"),
    "bastion_second_factor": setting("jumpsecond", METHODS, "publickey"),
    "bastion_expired_password": command("chage -M -1 jumpexpired; chage -d 20000 jumpexpired"),
    "sudo_of_pam": declared(user="root"),
    "slow_account": declared(ssh=rigs.limits(60)),
    "slow_shell": command("rm /home/slowshell/.bashrc"),
}


def facts_of(rig: Rig, target: Target, key: str = "") -> HostFacts:
    """Return what the inspection finds out about a host."""
    return asyncio.run(observe_hosts([target], key or rig.host.key, PROBING))[target.name]


def sudo_of_pam(rig: Rig) -> Target:
    """Make a user whom the PAM service of sudo refuses."""
    kept = "/run/pam-sudo"
    rig.run(f"cp /etc/pam.d/sudo {kept}; echo 'account required pam_deny.so' >/etc/pam.d/sudo")
    rig.cleanup.callback(rig.run, f"mv {kept} /etc/pam.d/sudo")
    return rig.target(rig.sshd("pamsudo"), rig.user("pamsudo"))


@pytest.mark.promise("A cure of a failed login makes the next login work.")
@pytest.mark.advice("several")
@pytest.mark.parametrize("name", CURES)
def test_the_cure_of_a_login_is_followed(name: str, rig: Rig, record_property: Record) -> None:
    target = sudo_of_pam(rig) if name == "sudo_of_pam" else getattr(rigs, name)(rig)
    refused = facts_of(rig, target)
    assert refused.error
    cured = CURES[name](rig, target) or target
    if name == "unknown_name_at_bastion":
        cured = dataclasses.replace(cured, port=rig.sshd("named"))
    assert facts_of(rig, cured).error == ""
    record_property("advice", ("cure", row_of(refused.error, "ssh/login.py"), True))


@pytest.mark.advice("several")
@pytest.mark.parametrize("part", ["private key", "host key"])
def test_a_key_that_can_be_read_is_declared(part: str, rig: Rig, record_property: Record) -> None:
    target = rig.target(rig.host.declared.port)
    own = part == "private key"
    broken = target if own else dataclasses.replace(target, host_key="ssh-ed25519 AAAA")
    refused = facts_of(rig, broken, "-----BEGIN OPENSSH PRIVATE KEY-----" if own else "")
    assert f"stage {part}: " in refused.error
    assert facts_of(rig, target).error == ""
    record_property("advice", ("cure", row_of(refused.error, "ssh/login.py"), True))


@pytest.mark.advice("several")
def test_a_server_gets_a_host_key_that_is_accepted(record_property: Record) -> None:
    small = asyncssh.generate_private_key("ssh-rsa", key_size=1024)
    good = asyncssh.generate_private_key("ssh-ed25519")

    async def scan(*keys: asyncssh.SSHKey) -> str:
        async with asyncssh.listen("127.0.0.1", 0, server_host_keys=[*keys]) as server:
            return await presented(("127.0.0.1", server.get_port()), pauses=())

    with pytest.raises(LoginFailed) as refused:
        asyncio.run(scan(small))
    failure = refused.value.failure
    assert "ssh-keygen -A" in failure.cure
    assert asyncio.run(scan(small, good)).startswith("ssh-ed25519 ")
    anchor = row_of(failure.at_stage, "ssh/login.py")
    record_property("advice", ("cure", anchor, True))
