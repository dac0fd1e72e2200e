"""A host with many real SSH servers: each situation of a login has its own sshd and user."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import HTTPServer
from typing import Any

import asyncssh

from gpu_cluster.desired.host import Target
from gpu_cluster.settings.hosts.host import Role
from gpu_cluster.settings.hosts.ssh import Bastion, SshLimits
from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.http_servers import QuietHandler, running
from tests.proofs.hosts.machine import Running, free_port

NAME = "gpu-1"
NOPASSWD = "ALL=(ALL) NOPASSWD: ALL"
PAM = "account required pam_unix.so"
BOOTING = (
    "System is booting up. Unprivileged users are not permitted to log in yet. Please come back "
    "later. For technical details, see pam_nologin(8)."
)
CLOUD_IMAGE = (
    "no-port-forwarding,no-agent-forwarding,no-X11-forwarding,command=\"echo 'Please login as the "
    'user \\"ubuntu\\" rather than the user \\"root\\".\';echo;sleep 10;exit 142" '
)
"""Options that cloud-init writes before the key of root (`disable_root_opts`)."""


@dataclass
class Rig:
    """A host on which a test starts SSH servers; all of them end with the rig.

    Attributes:
        host: Running host; root logs in to its first SSH server.
        cleanup: What ends with the situation.
    """

    host: Running
    cleanup: contextlib.ExitStack

    @property
    def public_key(self) -> str:
        """Return the public half of the stack's key."""
        key = asyncssh.import_private_key(self.host.key)
        return key.export_public_key().decode().strip()

    def run(self, script: str) -> str:
        """Run a script as root on the host and return its output; it must succeed."""
        done = self.host.run("sh -se", f"{script}\n")
        assert done.status == 0, (script, done)
        return done.output

    def user(self, name: str, *, login_shell: str = "/bin/bash", sudo: str = NOPASSWD) -> str:
        """Create a user with a shell and a line in sudoers; return the name."""
        lines = [f"useradd -m -s {login_shell} {name}", f"usermod -p '*' {name}"]
        if sudo:
            lines += [f"echo '{name} {sudo}' >/etc/sudoers.d/{name}"]
        self.run("\n".join(lines))
        return name

    def sshd(
        self, name: str, *lines: str, pam: str = "", options: str = "", key: str | None = None
    ) -> int:
        """Start an SSH server and return its port.

        Args:
            name: Name of the server, its settings and its PAM service.
            lines: Lines of sshd_config(5), before the usual ones.
            pam: Lines of the PAM service. Empty: the server doesn't use PAM.
            options: Options before the key in authorized_keys, with a blank after them.
            key: Public key that may log in. None: the stack's key.
        """
        port = free_port()
        settings = (
            *lines,
            f"ListenAddress 127.0.0.1:{port}",
            "HostKey /run/gpu-cluster-ssh/host_key",
            f"AuthorizedKeysFile /etc/ssh/keys-{name}",
            f"PidFile /run/sshd-{name}.pid",
            f"UsePAM {'yes' if pam else 'no'}",
            "PermitRootLogin prohibit-password",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "UseDNS no",
        )
        text = "\n".join(settings)
        self.run(
            f"cat >/etc/ssh/{name}.conf <<'EOF'\n{text}\nEOF\n"
            f"cat >/etc/pam.d/sshd-{name} <<'EOF'\n{pam}\nEOF\n"
            f"cat >/etc/ssh/keys-{name} <<'EOF'\n{options}{key or self.public_key}\nEOF\n"
            f"ln -f /usr/sbin/sshd /usr/sbin/sshd-{name} || "
            f"cp /usr/sbin/sshd /usr/sbin/sshd-{name}"
        )
        self.start(name, port)
        self.cleanup.callback(self.stop, name)
        return port

    def start(self, name: str, port: int) -> None:
        """Start a server whose settings exist, and wait until it listens."""
        # The server's name is also the name of its PAM service (OpenSSH, SSHD_PAM_SERVICE).
        self.run(f"/usr/sbin/sshd-{name} -f /etc/ssh/{name}.conf -E /var/log/sshd-{name}.log")
        until(lambda: self.host.exists(f"/run/sshd-{name}.pid"))

    def stop(self, name: str) -> None:
        """Stop a server; connections of its clients go on."""
        self.run(
            f"[ ! -e /run/sshd-{name}.pid ] || {{ kill -CONT $(cat /run/sshd-{name}.pid); "
            f"kill $(cat /run/sshd-{name}.pid) || :; }}"
        )
        until(lambda: not self.host.exists(f"/run/sshd-{name}.pid"))

    def target(self, port: int, user: str = "root", **more: Any) -> Target:
        """Return the target of a login to one of the servers."""
        whole = {"address": "127.0.0.1", "bastion": None, "ssh": SshLimits(), **more}
        return Target(
            name=NAME,
            node=NAME,
            role=Role.GPU_WORKER,
            port=port,
            user=user,
            host_key=whole.pop("host_key", self.host_key),
            **whole,
        )

    def through(self, bastion: int, port: int, user: str = "root", **more: Any) -> Target:
        """Return the target of a login to a server through another one."""
        jump = {"address": "127.0.0.1", "port": bastion, "user": "root", "host_key": self.host_key}
        jump |= more.pop("jump", {})
        return self.target(port, user, bastion=Bastion.model_validate(jump), **more)

    @property
    def host_key(self) -> str:
        """Return the public host key of all servers."""
        return simulated.host_public_key(NAME)

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Run an action in some seconds, in a thread."""
        timer = threading.Timer(seconds, action)
        self.cleanup.callback(timer.join)
        timer.start()


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, at most a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def another_key() -> str:
    """Return a new public key."""
    return asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()


def limits(seconds: int) -> SshLimits:
    """Return the limits of a stack whose logins may take some seconds."""
    return SshLimits(per_dial_timeout_seconds=seconds)


# Situations: each function makes one and returns the target of the login.


def unknown_name(rig: Rig) -> Target:
    return rig.target(22, address="gpu-1.invalid")


def closed_port(rig: Rig) -> Target:
    return rig.target(free_port())


def stopped_sshd(rig: Rig) -> Target:
    port = rig.sshd("stopped")
    rig.run("kill -STOP $(cat /run/sshd-stopped.pid)")
    return rig.target(port, ssh=limits(2))


def another_service(rig: Rig) -> Target:
    class Handler(QuietHandler):
        default_request_version = "HTTP/1.1"

    server = HTTPServer(("127.0.0.1", 0), Handler)
    rig.cleanup.enter_context(running(server))
    return rig.target(server.server_port)


def held(rig: Rig, port: int) -> socket.socket:
    """Begin a login that goes no further, and wait until the server has greeted."""
    connection = rig.cleanup.enter_context(socket.create_connection(("127.0.0.1", port)))
    assert connection.recv(4)
    return connection


def max_startups(rig: Rig) -> Target:
    port = rig.sshd("startups", "MaxStartups 1:100:1")
    held(rig, port)
    return rig.target(port)


def old_algorithms(rig: Rig) -> Target:
    return rig.target(rig.sshd("old", "KexAlgorithms diffie-hellman-group14-sha1"))


def other_host_key(rig: Rig) -> Target:
    return rig.target(rig.sshd("other"), host_key=another_key())


def key_not_installed(rig: Rig) -> Target:
    return rig.target(rig.sshd("nokey", key=another_key()), rig.user("nokey"))


def unknown_user(rig: Rig) -> Target:
    return rig.target(rig.sshd("nobody"), "nosuchuser")


def no_root_login(rig: Rig) -> Target:
    return rig.target(rig.sshd("noroot", "PermitRootLogin no"))


def user_not_allowed(rig: Rig) -> Target:
    return rig.target(rig.sshd("allow", "AllowUsers admin"), rig.user("allow"))


def open_home(rig: Rig) -> Target:
    user = rig.user("openhome")
    port = rig.sshd("openhome", "AuthorizedKeysFile .ssh/authorized_keys")
    rig.run(
        "mkdir /home/openhome/.ssh; cp /etc/ssh/keys-openhome /home/openhome/.ssh/authorized_keys; "
        "chown -R openhome /home/openhome; chmod 777 /home/openhome"
    )
    return rig.target(port, user)


def locked_account(rig: Rig) -> Target:
    user = rig.user("locked")
    rig.run("usermod -p '!' locked")
    return rig.target(rig.sshd("locked"), user)


def no_keys_accepted(rig: Rig) -> Target:
    lines = ("PubkeyAuthentication no", "PasswordAuthentication yes")
    return rig.target(rig.sshd("nokeys", *lines), rig.user("nokeys"))


def password_after_key(rig: Rig) -> Target:
    lines = ("PasswordAuthentication yes", "AuthenticationMethods publickey,password")
    return rig.target(rig.sshd("second", *lines), rig.user("second"))


def code_after_key(rig: Rig) -> Target:
    lines = (
        "KbdInteractiveAuthentication yes",
        "AuthenticationMethods publickey,keyboard-interactive",
    )
    port = rig.sshd("code", *lines, pam=f"auth required pam_unix.so\n{PAM}")
    return rig.target(port, rig.user("code"))


def expired_account(rig: Rig) -> Target:
    user = rig.user("gone")
    rig.run("chage -E 2000-01-01 gone")
    return rig.target(rig.sshd("gone", pam=PAM), user)


def booting_system(rig: Rig) -> Target:
    port = rig.sshd("boot", pam=f"account required pam_nologin.so file=/run/nologin-boot\n{PAM}")
    rig.run(f"echo '{BOOTING}' >/run/nologin-boot")
    return rig.target(port, rig.user("boot"))


def access_file(rig: Rig) -> Target:
    rig.run("echo '-:ALL:ALL' >/etc/security/access-rig.conf")
    pam = f"account required pam_access.so accessfile=/etc/security/access-rig.conf\n{PAM}"
    return rig.target(rig.sshd("access", pam=pam), rig.user("access"))


def expired_password(rig: Rig) -> Target:
    user = rig.user("expired")
    rig.run("chage -d 0 expired")
    return rig.target(rig.sshd("expired", pam=PAM), user)


def root_of_cloud_image(rig: Rig) -> Target:
    return rig.target(rig.sshd("cloud", options=CLOUD_IMAGE))


def key_for_backups(rig: Rig) -> Target:
    options = "command=\"echo 'this key is only for backups'\" "
    return rig.target(rig.sshd("backups", options=options))


def start_file_exits(rig: Rig) -> Target:
    user = rig.user("starts")
    rig.run("echo 'echo down for maintenance; exit 0' >/home/starts/.bashrc")
    return rig.target(rig.sshd("starts"), user)


def nologin_shell(rig: Rig) -> Target:
    return rig.target(rig.sshd("nologin"), rig.user("nologin", login_shell="/usr/sbin/nologin"))


def false_shell(rig: Rig) -> Target:
    return rig.target(rig.sshd("falseshell"), rig.user("falseshell", login_shell="/bin/false"))


def no_sessions(rig: Rig) -> Target:
    return rig.target(rig.sshd("sessions", "MaxSessions 0"))


def no_sudo(rig: Rig) -> Target:
    return rig.target(rig.sshd("nosudo", "SetEnv PATH=/nowhere"), rig.user("nosudo"))


def sudo_password(rig: Rig) -> Target:
    return rig.target(rig.sshd("askpass"), rig.user("askpass", sudo="ALL=(ALL) ALL"))


def sudo_for_others(rig: Rig) -> Target:
    return rig.target(rig.sshd("only"), rig.user("only", sudo="ALL=(ALL) NOPASSWD: /usr/bin/true"))


def sudoers_writable(rig: Rig) -> Target:
    user = rig.user("writable")
    rig.run("chmod 666 /etc/sudoers.d/writable")
    rig.cleanup.callback(rig.run, "rm /etc/sudoers.d/writable")
    return rig.target(rig.sshd("writable"), user)


def sudo_terminal(rig: Rig) -> Target:
    user = rig.user("noterminal")
    rig.run("echo 'Defaults:noterminal requiretty' >>/etc/sudoers.d/noterminal")
    return rig.target(rig.sshd("noterminal"), user)


def sudo_rs_password(rig: Rig) -> Target:
    return rig.target(rig.sshd("rsask"), rig.user("rsask", sudo="ALL=(ALL) ALL"))


def sudo_rs_for_others(rig: Rig) -> Target:
    user = rig.user("rsonly", sudo="ALL=(ALL) NOPASSWD: /usr/bin/true")
    return rig.target(rig.sshd("rsonly"), user)


def no_forwarding(rig: Rig) -> Target:
    return rig.through(rig.sshd("nofw", "AllowTcpForwarding no"), rig.sshd("behind"))


def no_forwarding_there(rig: Rig) -> Target:
    return rig.through(rig.sshd("nopermit", "PermitOpen none"), rig.sshd("behind"))


def closed_port_behind_bastion(rig: Rig) -> Target:
    return rig.through(rig.sshd("jump"), free_port())


def unknown_name_at_bastion(rig: Rig) -> Target:
    return rig.through(rig.sshd("jump"), 22, address="gpu-1.invalid")


def bastion_without_key(rig: Rig) -> Target:
    return rig.through(rig.sshd("jumpkey", key=another_key()), rig.sshd("behind"))


def bastion_with_other_key(rig: Rig) -> Target:
    jump = {"host_key": another_key()}
    return rig.through(rig.sshd("jump"), rig.sshd("behind"), jump=jump)


def bastion_port_closed(rig: Rig) -> Target:
    return rig.through(free_port(), rig.sshd("behind"))


def bastion_second_factor(rig: Rig) -> Target:
    lines = ("PasswordAuthentication yes", "AuthenticationMethods publickey,password")
    return rig.through(rig.sshd("jumpsecond", *lines), rig.sshd("behind"))


def bastion_expired_password(rig: Rig) -> Target:
    # A server forwards nothing for a user whose password must be changed first.
    user = rig.user("jumpexpired")
    rig.run("chage -d 0 jumpexpired")
    port = rig.sshd("jumpexpired", pam=PAM)
    return rig.through(port, rig.sshd("behind"), jump={"user": user})


def slow_account(rig: Rig) -> Target:
    pam = f"account required pam_exec.so /bin/sleep 8\n{PAM}"
    return rig.target(rig.sshd("slow", pam=pam), rig.user("slow"), ssh=limits(3))


def slow_shell(rig: Rig) -> Target:
    user = rig.user("slowshell")
    rig.run("echo 'sleep 30' >/home/slowshell/.bashrc")
    return rig.target(rig.sshd("slowshell"), user, ssh=limits(5))


# Logins that fail once.


def max_startups_for_a_moment(rig: Rig) -> Target:
    port = rig.sshd("moment", "MaxStartups 1:100:1")
    connection = held(rig, port)
    rig.later(0.6, lambda: connection.shutdown(socket.SHUT_RDWR))
    return rig.target(port)


def relayed(rig: Rig, port: int, first: Callable[[socket.socket, socket.socket], None]) -> int:
    """Return the port of a relay to a server; `first` gets the first connection and its way on."""
    server = socket.create_server(("127.0.0.1", 0))
    rig.cleanup.callback(server.close)

    def serve() -> None:
        number = 0
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                way = socket.create_connection(("127.0.0.1", port))
                number += 1
                if number == 1:
                    first(client, way)
                    continue
                for source, sink in ((client, way), (way, client)):
                    threading.Thread(target=passed, args=(source, sink), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return int(server.getsockname()[1])


def passed(source: socket.socket, sink: socket.socket) -> None:
    """Pass bytes on until the source ends."""
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            sink.sendall(part)
        sink.shutdown(socket.SHUT_WR)


def reset(connection: socket.socket) -> None:
    """Close a connection so that the other side gets a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def closed_before_the_greeting(rig: Rig) -> Target:
    def first(client: socket.socket, way: socket.socket) -> None:
        client.close()
        way.close()

    return rig.target(relayed(rig, rig.sshd("cut"), first))


def reset_in_the_key_exchange(rig: Rig) -> Target:
    def first(client: socket.socket, way: socket.socket) -> None:
        client.sendall(way.recv(4096))
        way.sendall(client.recv(4096))
        client.sendall(way.recv(100))
        reset(client)
        way.close()

    return rig.target(relayed(rig, rig.sshd("cutkex"), first))


def sshd_restarts(rig: Rig) -> Target:
    port = rig.sshd("restart")
    rig.stop("restart")
    rig.later(0.6, lambda: rig.start("restart", port))
    return rig.target(port)


def bastion_at_max_startups(rig: Rig) -> Target:
    port = rig.sshd("jumpmoment", "MaxStartups 1:100:1")
    connection = held(rig, port)
    rig.later(0.6, lambda: connection.shutdown(socket.SHUT_RDWR))
    return rig.through(port, rig.sshd("behind"))


def sshd_restarts_behind_the_bastion(rig: Rig) -> Target:
    port = rig.sshd("restartbehind")
    rig.stop("restartbehind")
    rig.later(0.6, lambda: rig.start("restartbehind", port))
    return rig.through(rig.sshd("jump"), port)


def system_still_booting(rig: Rig) -> Target:
    port = rig.sshd("booting", pam=f"account required pam_nologin.so file=/run/nologin-b\n{PAM}")
    rig.run(f"echo '{BOOTING}' >/run/nologin-b")
    rig.later(0.6, lambda: rig.run("rm /run/nologin-b"))
    return rig.target(port, rig.user("booting"))


@contextlib.contextmanager
def situation(host: Running) -> Iterator[Rig]:
    """Yield a rig on a host; afterwards its servers and threads end."""
    with contextlib.ExitStack() as cleanup:
        yield Rig(host, cleanup)
