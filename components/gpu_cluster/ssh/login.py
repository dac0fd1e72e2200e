"""Stages of a login to a host: at which stage a login failed, and what to do. Pure functions.

A login goes through the stages in the order of `Stage`. This is the only module that knows them;
whatever logs in to a host gets its failures as a `LoginFailure` (`gpu_cluster.ssh.client`).
Sources of the hosts' words: OpenSSH (sshd.c, session.c), cloud-init (disable_root_opts), sudo
(plugins/sudoers), sudo-rs (src/common/error.rs), util-linux and shadow (nologin).
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

import asyncssh

from gpu_rules.faults import Fault
from gpu_rules.printable import printable


class Stage(StrEnum):
    """Stage of a login, in the order in which a login passes them."""

    PRIVATE_KEY = "private key"
    RESOLVE = "name resolution"
    FORWARD = "forward through the bastion"
    CONNECT = "connection"
    MAX_STARTUPS = "MaxStartups"
    GREETING = "greeting"
    KEY_EXCHANGE = "key exchange"
    HOST_KEY = "host key"
    KEY = "key"
    SECOND_FACTOR = "second factor"
    USER = "user"
    SLOW = "slow login"
    EXPIRED = "expired password"
    COMMAND = "forced command"
    SHELL = "shell"
    SUDO = "sudo"
    TERMINAL = "sudo's terminal"
    SCRIPT = "script"


TRANSIENT = frozenset(
    (Stage.CONNECT, Stage.MAX_STARTUPS, Stage.GREETING, Stage.KEY_EXCHANGE, Stage.USER)
)
"""Stages that a second try may pass: sshd restarts, is busy, or the system is still booting."""
UNREACHED = frozenset((Stage.RESOLVE, *TRANSIENT, Stage.SLOW, Stage.SCRIPT)) - {Stage.USER}
"""Stages at which the host has not refused the login: it may be down, busy or slow."""
PUBLIC_KEY = "/etc/ssh/ssh_host_ed25519_key.pub"
"""Default file of a host's public key in OpenSSH (sshd_config(5), HostKey)."""
_KEY_FILES = {
    "ssh-ed25519": PUBLIC_KEY,
    "ssh-rsa": "/etc/ssh/ssh_host_rsa_key.pub",
    "ecdsa-sha2-nistp256": "/etc/ssh/ssh_host_ecdsa_key.pub",
    "ecdsa-sha2-nistp384": "/etc/ssh/ssh_host_ecdsa_key.pub",
    "ecdsa-sha2-nistp521": "/etc/ssh/ssh_host_ecdsa_key.pub",
}
_WORD_LINES, _WORD_LENGTH = 3, 200
_LOGIN_AS = re.compile(r'login as the user "([a-z_][a-z0-9_-]{0,31})"')
_NO_PROGRAM = (126, 127)
"""Exit statuses of a shell that can't run a program (POSIX, "Exit Status for Commands")."""


class Endpoint(Protocol):
    """SSH server to log in to: its address, user name and public host key."""

    @property
    def address(self) -> str:
        """Return the host name or IP address."""
        ...

    @property
    def port(self) -> int:
        """Return the TCP port."""
        ...

    @property
    def user(self) -> str:
        """Return the user name of the login."""
        ...

    @property
    def host_key(self) -> str:
        """Return the public key that the server must present."""
        ...


@dataclass(frozen=True)
class LoginFailure:
    """A login that failed.

    Attributes:
        stage: Stage that the login did not pass.
        at: Who refused: `host` or `bastion`.
        user: User name of the login.
        place: Address and port.
        reason: What happened.
        cure: What to do.
        wanted: What was expected.
        words: What the host itself printed on both streams; a few lines, made safe to display.
        is_transient: True if another try may succeed.
    """

    stage: Stage
    at: str
    user: str
    place: str
    reason: str
    cure: str
    wanted: str
    words: tuple[str, ...] = ()
    is_transient: bool = False

    @property
    def found(self) -> str:
        """Return the failure: stage, whether host or bastion refused, and the host's output."""
        return printable(
            f"no login as {self.user} at {self.at} {self.place}, {self.at_stage}", 1024
        )

    @property
    def at_stage(self) -> str:
        """Return the stage, what happened, and the host's own words."""
        printed = f"; it printed: {' / '.join(self.words)}" if self.words else ""
        return printable(f"stage {self.stage}: {self.reason}{printed}", 1024)

    @property
    def is_refused(self) -> bool:
        """Return True if the host responded and refuses; False if it may be down, busy or slow."""
        return self.stage not in UNREACHED

    def fault(self, where: str, attempts: int = 1) -> Fault:
        """Return the failure as a fault.

        Args:
            where: What can't be reached, such as `host gpu-1`.
            attempts: Number of tries.
        """
        tries = f" ({attempts} attempts)" if attempts > 1 else ""
        return Fault(where, f"{self.found}{tries}", self.wanted, self.cure)


class LoginFailed(Exception):
    """Error: a login to a host failed, or its connection ended before the host's answer.

    Attributes:
        failure: The stage, the host's own words, and a cure.
    """

    def __init__(self, failure: LoginFailure) -> None:
        """Create the error from its explanation."""
        super().__init__(failure.found)
        self.failure = failure


@dataclass
class Progress:
    """The last stage of a login, as the SSH library reported it.

    Attributes:
        is_connected: True if the server accepted the connection.
        is_greeted: True if the server sent its SSH version.
        shown: Type and fingerprint of a presented host key that is not the declared one.
        keys: Number of times that the server asked for a key: 0 if it takes none, 1 if it asked
            for our key, 2 if it refused our key.
        asked: What the server asked for besides a key: `password` or `a code`. Empty: nothing.
        words: Lines that the server sent during the login.
    """

    is_connected: bool = False
    is_greeted: bool = False
    shown: str = ""
    keys: int = 0
    asked: str = ""
    words: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Login:
    """Login to one SSH server.

    Attributes:
        to: Address, user and host key.
        at: Who is logged in to: `host` or `bastion`.
        declared: Type and fingerprint of the declared host key.
        through: The bastion to which the connection was open. None: it goes through none.
        seconds: Time limit of one try (`ssh.perDialTimeoutSeconds`).
    """

    to: Endpoint
    at: str = "host"
    declared: str = ""
    through: Endpoint | None = None
    seconds: float = 0

    def failure(
        self,
        stage: Stage,
        reason: str,
        cure: str,
        *,
        words: tuple[str, ...] = (),
        wanted: str = "",
        is_transient: bool | None = None,
    ) -> LoginFailure:
        """Return a failure of this login at a stage."""
        return LoginFailure(
            stage,
            self.at,
            self.to.user,
            self.place,
            reason,
            printable(cure, 1024),
            wanted or f"a login of {self.to.user} with the stack's SSH key",
            words,
            stage in TRANSIENT if is_transient is None else is_transient,
        )

    @property
    def place(self) -> str:
        """Return the server's address and port."""
        address = f"[{self.to.address}]" if ":" in self.to.address else self.to.address
        return printable(f"{address}:{self.to.port}")

    @property
    def slow(self) -> str:
        """Return the cure of a login that takes too long."""
        return (
            f"find what delays logins on the {self.at} (DNS, sssd, PAM, start-up files), or raise "
            "ssh.perDialTimeoutSeconds"
        )

    @property
    def authorized(self) -> str:
        """Return the cure of a key that the server does not accept for the user."""
        return (
            f"add the key's public half to ~{self.to.user}/.ssh/authorized_keys on the {self.at}, "
            "or correct user or gpu-cluster:sshPrivateKey"
        )


def words_of(*streams: str) -> tuple[str, ...]:
    """Return the last lines of a host's output streams, shortened and made safe to display."""
    lines: list[str] = []
    for stream in streams:
        printed = [line.strip() for line in stream.splitlines() if line.strip()]
        lines += [printable(line, _WORD_LENGTH) for line in printed[-_WORD_LINES:]]
    return tuple(dict.fromkeys(lines))


def unreadable_key(login: Login, error: Exception) -> LoginFailure:
    """Return the failure of a login whose private key can't be read."""
    cure = "`ssh-keygen -t ed25519 -N '' -f stack_key`, then declare it as sshPrivateKey"
    return login.failure(
        Stage.PRIVATE_KEY, f"the SSH private key can't be read: {error}", cure, is_transient=False
    )


def unreadable_host_key(login: Login, error: Exception) -> LoginFailure:
    """Return the failure of a login whose declared host key can't be read."""
    cure = f"declare the content of {PUBLIC_KEY} of the {login.at} as hostKey"
    return login.failure(Stage.HOST_KEY, f"the declared hostKey can't be read: {error}", cure)


def unusable_host_key(login: Login) -> LoginFailure:
    """Return the failure of a server that presents no host key that a stack file takes."""
    cure = f"`ssh-keygen -A` on the {login.at} makes one of type ed25519; then restart its sshd"
    return login.failure(
        Stage.HOST_KEY,
        "no host key of a kind that a stack file accepts",
        cure,
        wanted="a key of type ed25519, ecdsa, or rsa with 2048 bits or more",
    )


def explain(error: BaseException, login: Login, progress: Progress) -> LoginFailure:
    """Explain why no session could be opened with a server: the stages up to the user.

    Args:
        error: Error of the connection.
        login: What was tried.
        progress: How far the login came.
    """
    if isinstance(error, asyncssh.ChannelOpenError):
        return _forward(error, login)
    if not progress.is_connected:
        return _connection(error, login)
    words = words_of("\n".join(progress.words))
    if not progress.is_greeted:
        # If another service answers on the port, its first line shows which service.
        return _greeting(error, login, words_of("\n".join(progress.words[:_WORD_LINES])))
    if progress.shown:
        return _host_key(login, progress.shown)
    if isinstance(error, asyncssh.PermissionDenied):
        return _key(error, login, progress, words)
    if isinstance(error, TimeoutError):
        return login.failure(
            Stage.SLOW,
            f"the login did not end within {login.seconds:.0f} s",
            login.slow,
            words=words,
        )
    if progress.keys:
        cure = (
            f"look on the {login.at} for why {login.to.user} may not log in: `chage -l "
            f"{login.to.user}`, /etc/security/access.conf, pam_nologin(8), and sshd's log"
        )
        return login.failure(
            Stage.USER,
            f"the connection ended in the login ({text_of(error)}): the account may not log in",
            cure,
            words=words,
        )
    lost = isinstance(error, (OSError, asyncssh.ConnectionLost))
    cure = (
        f"see sshd's log on the {login.at}, and what stands between (firewall, MTU)"
        if lost
        else f"update its SSH server: it needs algorithms without SHA-1, as in OpenSSH since 8.8 "
        f"(`sshd -T | grep -i algorithms` on the {login.at})"
    )
    return login.failure(Stage.KEY_EXCHANGE, text_of(error), cure, words=words, is_transient=lost)


def _connection(error: BaseException, login: Login) -> LoginFailure:
    if isinstance(error, socket.gaierror):
        reason = f"the name can't be resolved ({text_of(error)})"
        cure = "correct address in the stack file, or the name server's entry"
        is_transient = error.errno == socket.EAI_AGAIN
        return login.failure(Stage.RESOLVE, reason, cure, is_transient=is_transient)
    reason = text_of(error)
    if isinstance(error, TimeoutError):
        reason = f"no answer within {login.seconds:.0f} s"
    transient = not isinstance(error, TimeoutError)
    return login.failure(Stage.CONNECT, reason, _start(login), is_transient=transient)


def _start(login: Login) -> str:
    start, jump = "here", ""
    if through := login.through:
        start = "the bastion"
        jump = f"-J {through.user}@{replace(login, to=through).place} "
    return (
        f"start the {login.at} or its sshd, correct address and port in the stack file, or allow "
        f"access from {start}; `ssh {jump}-p {login.to.port} {login.to.user}@{login.to.address}` "
        "shows whether it works"
    )


def _forward(error: asyncssh.ChannelOpenError, login: Login) -> LoginFailure:
    """Explain why a bastion opened no connection to the host (RFC 4254, 5.1)."""
    words = words_of(error.reason)
    at_bastion = replace(login, to=login.through or login.to, at="bastion")
    if error.code == asyncssh.OPEN_CONNECT_FAILED:
        if re.search(r"not known|resol|resolution", error.reason):
            reason = f"the bastion can't resolve the host's name, {login.place}"
            cure = "correct address in the stack file, or write the host's IP address"
            return at_bastion.failure(Stage.RESOLVE, reason, cure, words=words, is_transient=False)
        return login.failure(
            Stage.CONNECT, "the bastion can't connect to it", _start(login), words=words
        )
    user = at_bastion.to.user
    cure = (
        "allow it in the bastion's sshd_config: AllowTcpForwarding yes, and PermitOpen any or with "
        f"{login.place}; and no option restrict or no-port-forwarding at the key there; if "
        f"`chage -l {user}` there says that the password must be changed, which also ends all "
        f"forwarding, set a new one for {user}"
    )
    return at_bastion.failure(
        Stage.FORWARD,
        f"the bastion opens no connection to the host, {login.place}",
        cure,
        words=words,
        wanted=f"a connection from the bastion to {login.place}",
    )


def _greeting(error: BaseException, login: Login, words: tuple[str, ...]) -> LoginFailure:
    printed = " ".join(words)
    if "MaxStartups" in printed:
        cure = (
            f"raise MaxStartups in sshd_config on the {login.at}, or end the logins that hang there"
        )
        return login.failure(
            Stage.MAX_STARTUPS, "too many logins have begun and not ended", cure, words=words
        )
    if isinstance(error, TimeoutError):
        reason = f"the port is open, and no SSH server answered within {login.seconds:.0f} s"
    else:
        reason = (
            f"the connection was closed before the greeting of an SSH server ({text_of(error)})"
        )
    cure = (
        f"restart sshd on the {login.at}, correct port in the stack file, or see what closes "
        "connections there (PerSourcePenalties, fail2ban, a load balancer, hosts.deny)"
    )
    transient = not isinstance(error, TimeoutError) and not words
    return login.failure(Stage.GREETING, reason, cure, words=words, is_transient=transient)


def _host_key(login: Login, shown: str) -> LoginFailure:
    file = _KEY_FILES.get(shown.partition(" ")[0], PUBLIC_KEY)
    return login.failure(
        Stage.HOST_KEY,
        f"it shows another key than the declared one: {shown}",
        f"run `ssh-keygen -lf {file}` on the {login.at}'s console; if it prints the key that was "
        f"shown, the {login.at} was reinstalled: replace hostKey with the content of that file; if "
        "not, another machine responds at that address: do not connect",
        wanted=f"{login.declared}, which is hostKey in the stack file",
    )


def _key(
    error: asyncssh.PermissionDenied, login: Login, progress: Progress, words: tuple[str, ...]
) -> LoginFailure:
    if progress.keys == 1 and progress.asked:
        cure = (
            f"let {login.to.user} log in with the key alone, in sshd_config on the {login.at}: "
            f"`Match User {login.to.user}` and `AuthenticationMethods publickey`"
        )
        return login.failure(
            Stage.SECOND_FACTOR,
            f"the key is accepted, then {progress.asked} is asked for",
            cure,
            words=words,
        )
    if progress.keys == 0:
        cure = f"set PubkeyAuthentication yes in sshd_config on the {login.at}"
        return login.failure(
            Stage.KEY, f"it takes no key, only {progress.asked or 'other ways'}", cure, words=words
        )
    root = "PermitRootLogin prohibit-password, " if login.to.user == "root" else ""
    reason = "it rejected the user or the key; SSH servers don't say which"
    cure = (
        f"{login.authorized}; if the key is there, see sshd's log: {root}AllowUsers and "
        "AllowGroups, StrictModes (the home folder must belong to the user alone), a locked account"
    )
    return login.failure(Stage.KEY, reason, cure, words=words)


def explain_session(
    login: Login, status: int | None, errors: str, output: str, *, is_late: bool = False
) -> LoginFailure:
    """Explain why a host did not run our command after the login: password, command, shell, sudo.

    Args:
        login: The login.
        status: Exit status of the session. None: the connection ended.
        errors: Standard error so far.
        output: Standard output so far.
        is_late: True if the time limit of the login passed.
    """
    user, text = login.to.user, f"{errors}\n{output}"
    words = words_of(errors, output)
    end = f"status {status}" if status is not None else "the connection ended"
    if wanted := _LOGIN_AS.search(text):
        cure = f"set user: {wanted[1]} in section ssh of the stack file, or for this host"
        return login.failure(Stage.COMMAND, f"the key may not log in as {user}", cure, words=words)
    if re.search(r"password (has|is) expired|Password change required", text, re.IGNORECASE):
        cure = (
            f"set a new password for {user} on the {login.at}, or, as logins with a key need none, "
            f"let it never expire: `chage -M -1 {user}`"
        )
        return login.failure(Stage.EXPIRED, "the password must be changed first", cure, words=words)
    if user != "root" and (failure := _sudo(login, text, status, words)):
        return failure
    if is_late:
        return login.failure(
            Stage.SLOW,
            f"the login worked, and no command began within {login.seconds:.0f} s",
            login.slow,
            words=words,
        )
    no_shell = "not available" in text or status in _NO_PROGRAM or (status == 1 and not words)
    if no_shell:
        cure = f"give {user} a shell on the {login.at}: `chsh -s /bin/sh {user}`"
        return login.failure(
            Stage.SHELL, f"the shell of {user} runs no command ({end})", cure, words=words
        )
    cure = (
        f"remove command= from the key's line in ~{user}/.ssh/authorized_keys, or ForceCommand "
        "from sshd_config; or correct the start-up file of the shell that ends the session"
    )
    return login.failure(
        Stage.COMMAND,
        f"the {login.at} ran something else than our command ({end})",
        cure,
        words=words,
    )


def _sudo(
    login: Login, text: str, status: int | None, words: tuple[str, ...]
) -> LoginFailure | None:
    user = login.to.user
    allow = (
        f"as root on the {login.at}: `echo '{user} ALL=(ALL) NOPASSWD: ALL' "
        f">/etc/sudoers.d/{user}`; or set user: root"
    )
    if re.search(r"must have a tty|requires? a (tty|terminal)", text):
        cure = f"write `Defaults:{user} !requiretty` to /etc/sudoers.d/ on the {login.at}"
        return login.failure(
            Stage.TERMINAL, "sudo wants a terminal, and a run has none", cure, words=words
        )
    if re.search(r"sudo[^\n]*not found", text):
        cure = f"install sudo on the {login.at}, or set user: root"
        return login.failure(Stage.SUDO, "there is no sudo", cure, words=words)
    if re.search(r"world writable|no valid sudoers|syntax error|owned by uid", text):
        cure = f"correct what `visudo -c` names on the {login.at} (as root)"
        return login.failure(Stage.SUDO, "sudo can't use its settings", cure, words=words)
    if re.search(
        r"password is required|authentication (is )?required|a password|not in the sudoers|"
        r"not allowed to (run|execute)|may not run|I'm sorry|I’m sorry",
        text,
        re.IGNORECASE,
    ):
        return login.failure(
            Stage.SUDO,
            f"sudo doesn't let {user} become root without a password",
            allow,
            words=words,
        )
    if status not in (None, 0) and re.search(r"^sudo(-rs)?: ", text, re.MULTILINE):
        return login.failure(Stage.SUDO, f"sudo failed (status {status})", allow, words=words)
    return None


def explain_refused_session(login: Login, error: asyncssh.ChannelOpenError) -> LoginFailure:
    """Return the failure of a server that opens no session after the login."""
    cure = f"raise MaxSessions in sshd_config on the {login.at}; 0 there allows forwarding only"
    return login.failure(Stage.SHELL, "it opens no session", cure, words=words_of(error.reason))


def explain_script(
    login: Login, reason: str, errors: str, output: str = "", cure: str = ""
) -> LoginFailure:
    """Return the failure of a script that began after the login, and did not end as it should."""
    return login.failure(
        Stage.SCRIPT,
        reason,
        cure or f"see what it printed, and the system's log of the {login.at}; then run again",
        words=words_of(errors, output),
        wanted="an end of the script",
    )


def text_of(error: BaseException) -> str:
    """Return the reason of a failed connection in a few words."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno) if error.errno > 0 else str(error.strerror or error)
    return printable(str(error) or type(error).__name__, _WORD_LENGTH)
