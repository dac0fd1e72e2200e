"""A read-only look at hosts by SSH: one connection, one command each, all at once."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import re
import shlex
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import asyncssh

from components.hosts.facts import HostFacts
from components.hosts.probe import probe
from config.printable import printable

PROBE_LIMIT = 10.0
"""Seconds for one host: connection, log-in and probe together."""
AT_ONCE = 64
"""Hosts that are looked at together."""
ANSWER = 256 * 1024
"""Bytes of one host's answer; that of a host with 500 files of ours has some 60 KiB."""
PROBE_KEY_FILE = "GPU_CLUSTER_PROBE_KEY_FILE"
"""Variable with the file of a key that hosts tie to the probe (`make probe-key`), used before the
stack's: previews have no other."""
HARDWARE = ("gpu", "rdma", "memory", "rows", "unreached")
"""Keys of the lines about single devices, which `components.hosts.hardware` reads, and of
registries."""
DEVICES = 64
"""How many of each kind are taken."""
LONGEST = 1024
"""Characters of one value of it."""
MODERN: dict[str, Any] = {
    "kex_algs": "-*sha1,gss-*",
    "mac_algs": "-hmac-sha1*",
    "signature_algs": "-ssh-rsa",
}
"""What a connection may agree on: AsyncSSH's defaults without SHA-1, as OpenSSH's own since 8.8."""
_RSA = ["rsa-sha2-512", "rsa-sha2-256"]
_DIGITS = re.compile(r"[0-9]{1,15}")


Tunnel = asyncssh.SSHClientConnection | HostFacts | None
"""A connection to a bastion, why there is none, or no bastion."""


class Endpoint(Protocol):
    """What is read of ``config.Host`` and ``config.Bastion``."""

    @property
    def address(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def user(self) -> str: ...
    @property
    def host_key(self) -> str: ...


class Host(Endpoint, Protocol):
    """What is read of ``config.Host``."""

    @property
    def name(self) -> str: ...
    @property
    def bastion(self) -> Endpoint | None: ...


async def observe(
    hosts: Sequence[Host], private_key: str, limit: float = PROBE_LIMIT
) -> dict[str, HostFacts]:
    """Look at every host, in parallel, each host's key checked against its ``host_key``.

    Never raises for a host: what went wrong is the ``error`` of its facts. No user or system SSH
    configuration, agent or known_hosts file is read.

    Args:
        hosts: those with the same bastion share one connection to it.
        private_key: an OpenSSH private key.
        limit: seconds for each host; also for the connection to a bastion.
    """
    if not hosts:
        return {}
    key = _read(private_key)
    if isinstance(key, str):
        broken = HostFacts(error=f"the SSH private key can't be read: {key}", refused=True)
        return {host.name: broken for host in hosts}
    return await _observe(hosts, key, limit)


def _read(private_key: str) -> asyncssh.SSHKey | str:
    """The key, or why it can't be used, without a word of it.

    Once for a look: a key of RSA with 4,096 bits takes 0.2 s.
    """
    try:
        return asyncssh.import_private_key(private_key)
    except (asyncssh.KeyImportError, ValueError) as error:
        return str(error)


async def _observe(
    hosts: Sequence[Host], key: asyncssh.SSHKey, limit: float, registries: Sequence[str] = ()
) -> dict[str, HostFacts]:
    gate = asyncio.Semaphore(AT_ONCE)
    asked = f"GC_REGISTRIES={shlex.quote(' '.join(registries))}\n"
    async with contextlib.AsyncExitStack() as stack:
        bastions = {_name(host.bastion): host.bastion for host in hosts if host.bastion is not None}

        async def dial(bastion: Endpoint) -> Tunnel:
            try:
                async with asyncio.timeout(limit):
                    return await stack.enter_async_context(_connect(bastion, key, None))
            except (OSError, asyncssh.Error, TimeoutError) as error:
                return _failure(error, limit, "bastion: ")

        dialled = await asyncio.gather(*map(dial, bastions.values()))
        tunnels: dict[str, Tunnel] = dict(zip(bastions, dialled, strict=True))

        async def look(host: Host) -> HostFacts:
            tunnel = tunnels[_name(host.bastion)] if host.bastion is not None else None
            if isinstance(tunnel, HostFacts):
                return tunnel
            async with gate:
                return await _probe(host, key, tunnel, limit, asked)

        found = await asyncio.gather(*(look(host) for host in hosts))
    return {host.name: facts for host, facts in zip(hosts, found, strict=True)}


async def answer(request: dict[str, Any]) -> dict[str, Any]:
    """`observe` for a request: ``hosts`` as declared, ``privateKey``, ``registries``: ``host:port``
    that hosts are asked whether they reach.

    Returns:
        ``facts`` by host, and ``problems``: what must stop the run before any host is asked.
    """
    hosts = [declared(host) for host in request["hosts"]]
    if not hosts:
        return {"facts": {}, "problems": []}
    try:
        path = os.environ.get(PROBE_KEY_FILE)
        key = _read(Path(path).read_text() if path else request["privateKey"])
    except (OSError, UnicodeDecodeError) as error:
        key = f"{PROBE_KEY_FILE}: {error}"
    if isinstance(key, str):
        problem = (
            "SSH private key (gpu-cluster:sshPrivateKey, or the file that the environment names): "
            f"found {key}; wanted: one in the format of OpenSSH or PEM, without a passphrase; "
            "cure: `ssh-keygen -t ed25519 -N '' -f stack_key`, its public half on the hosts, "
            "`pulumi config set --secret gpu-cluster:sshPrivateKey < stack_key`"
        )
        return {"facts": {}, "problems": [problem]}
    found = await _observe(hosts, key, PROBE_LIMIT, request.get("registries", ()))
    facts = {name: dataclasses.asdict(each) for name, each in found.items()}
    return {"facts": facts, "problems": []}


def declared(host: dict[str, Any]) -> SimpleNamespace:
    """A host as a document has it, with the attributes of a `Host`."""
    bastion = host["bastion"] and SimpleNamespace(**host["bastion"])
    return SimpleNamespace(**{**host, "bastion": bastion})


def _name(endpoint: Endpoint) -> str:
    """What tells two bastions apart."""
    return f"{endpoint.user}@{endpoint.address}:{endpoint.port} {endpoint.host_key}"


@contextlib.asynccontextmanager
async def reached(host: Host, private_key: str) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """A connection to one host, through its bastion where it has one.

    Raises:
        OSError, asyncssh.Error: no connection, another host key, no log-in.
    """
    key = asyncssh.import_private_key(private_key)
    async with contextlib.AsyncExitStack() as stack:
        tunnel = None
        if host.bastion is not None:
            tunnel = await stack.enter_async_context(_connect(host.bastion, key, None))
        yield await stack.enter_async_context(_connect(host, key, tunnel))


@contextlib.asynccontextmanager
async def _connect(
    to: Endpoint, key: asyncssh.SSHKey, tunnel: asyncssh.SSHClientConnection | None
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    trusted = asyncssh.import_public_key(to.host_key)
    connection = await asyncssh.connect(
        to.address,
        to.port,
        username=to.user,
        client_keys=[key],
        known_hosts=([trusted], [], []),
        config=None,
        agent_path=None,
        tunnel=tunnel or (),
        **MODERN,
        **({"server_host_key_algs": _RSA} if trusted.get_algorithm() == "ssh-rsa" else {}),
    )
    try:
        yield connection
    finally:
        connection.abort()


async def _probe(
    host: Host,
    key: asyncssh.SSHKey,
    tunnel: asyncssh.SSHClientConnection | None,
    limit: float,
    asked: str,
) -> HostFacts:
    try:
        async with asyncio.timeout(limit), _connect(host, key, tunnel) as connection:
            text = f"{asked}{probe()}"
            status, output, errors = await _answer(connection, _shell(host, limit), text)
        if "end=ok" in output.splitlines():
            # The host's clock was read at the end of the probe; the answer took less than a second.
            return parse(output.splitlines(), time.time())
    except (OSError, asyncssh.Error, TimeoutError, ValueError) as error:
        return _failure(error, limit)
    last = errors.strip().splitlines()[-1:] or ["no message"]
    return HostFacts(error=printable(f"the probe ended with status {status}: {last[0]}", LONGEST))


async def printed(host: Host, private_key: str, script: str, limit: float) -> str:
    """What a script of ours prints on a host.

    Raises:
        OSError, asyncssh.Error, TimeoutError: no connection, another host key, no log-in, no end.
        ValueError: more than `ANSWER` bytes.
    """
    async with asyncio.timeout(limit), reached(host, private_key) as connection:
        _, output, _ = await _answer(connection, _shell(host, limit), script)
    return output


def _shell(host: Endpoint, limit: float) -> str:
    """The command that runs a script from standard input, ended when it outlasts the limit."""
    command = f"timeout -k 1 {limit:.0f} sh -s"
    return command if host.user == "root" else f"sudo -n {command}"


async def _answer(
    connection: asyncssh.SSHClientConnection, command: str, script: str
) -> tuple[int | None, str, str]:
    """What a script printed, and its status; a host that doesn't stop is left.

    A key that is tied to the probe runs the host's own copy, whatever it is given.

    Raises:
        ValueError: more than `ANSWER` bytes.
    """

    async def read(stream: asyncssh.SSHReader[bytes]) -> str:
        taken = b""
        while part := await stream.read(65536):
            taken += part
            if len(taken) > ANSWER:
                raise ValueError(f"the host answered more than {ANSWER} bytes")
        return taken.decode(errors="replace")

    process = await connection.create_process(command, encoding=None)
    with contextlib.suppress(BrokenPipeError, ConnectionError):
        process.stdin.write(script.encode())
        process.stdin.write_eof()
    output, errors = await asyncio.gather(read(process.stdout), read(process.stderr))
    await process.wait_closed()
    return process.exit_status, output, errors


def _failure(error: BaseException, limit: float, where: str = "") -> HostFacts:
    refused = (asyncssh.HostKeyNotVerifiable, asyncssh.PermissionDenied, asyncssh.KeyImportError)
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        text = f"the host shows another key than the declared one ({error.reason})"
    elif isinstance(error, asyncssh.PermissionDenied):
        text = f"the host does not let us log in ({error.reason})"
    elif isinstance(error, TimeoutError):
        text = f"no answer within {limit:.0f} s"
    elif isinstance(error, OSError) and error.errno:
        text = os.strerror(error.errno)
    else:
        text = str(error) or type(error).__name__
    return HostFacts(error=printable(where + text, LONGEST), refused=isinstance(error, refused))


def parse(lines: Iterable[str], now: float | None = None) -> HostFacts:
    """The probe's lines as facts, read when this machine's clock showed ``now``.

    Unknown keys are passed over.
    """
    single: dict[str, str] = {}
    repeated: dict[str, list[str]] = {
        name: [] for name in ("applied", "digest", "drift", "loaded", "reboot", *HARDWARE)
    }
    for line in lines:
        key, separator, value = line.partition("=")
        if separator:
            value = printable(value, LONGEST)
            repeated.get(key, []).append(value)
            single[key] = value
    drift: dict[str, tuple[str, ...]] = {}
    for phase, path in sorted(_split(value, 2) for value in repeated["drift"]):
        drift[phase] = (*drift.get(phase, ()), path)
    digests = [_split(value, 3) for value in repeated["digest"]]
    return HostFacts(
        os=single.get("os", ""),
        os_version=single.get("os_version", ""),
        arch=single.get("arch", ""),
        kernel=single.get("kernel", ""),
        nvidia_devices=_number(single.get("nvidia_devices")),
        loaded=tuple(repeated["loaded"]),
        driver=single.get("driver") or None,
        containerd=single.get("containerd") or None,
        toolkit=single.get("toolkit") or None,
        docker=single.get("docker") or None,
        crio=single.get("crio") or None,
        headers=single.get("headers") == "yes",
        secure_boot={"yes": True, "no": False}.get(single.get("secure_boot", "")),
        driver_container=single.get("driver_container") == "yes",
        nvswitches=_number(single.get("nvswitches")),
        skew=_number(single["clock"]) - now if now and "clock" in single else None,
        nvidia_runtime=single.get("nvidia_runtime") == "yes",
        runtime_mode=single.get("runtime_mode", ""),
        swap=tuple(single.get("swap", "").split()),
        cgroup=_number(single.get("cgroup")),
        disk_free_mib=_number(single.get("disk_free_mib")),
        package_lock=single.get("package_lock", ""),
        boot_id=single.get("boot_id", ""),
        reboot=tuple(repeated["reboot"]),
        reboot_required=single.get("reboot_required") == "yes",
        simulated=single.get("simulated") == "yes",
        unreached=_devices(repeated["unreached"]),
        peermem=single.get("peermem") == "yes",
        open_modules=single.get("open_modules") == "yes",
        governor=single.get("governor") or "-",
        numa=single.get("numa") or "-",
        gpus=_devices(repeated["gpu"]),
        rdma=_devices(repeated["rdma"]),
        memory=_devices(repeated["memory"]),
        rows=_devices(repeated["rows"]),
        now=single.get("now", ""),
        applied=tuple(repeated["applied"]),
        digests={path: digest for _, digest, path in sorted(digests)},
        drift=drift,
    )


def _split(text: str, parts: int) -> tuple[str, ...]:
    words = text.split(" ", parts - 1)
    return tuple(words + [""] * (parts - len(words)))


def _devices(lines: list[str]) -> tuple[str, ...]:
    """In one order: some are told by programs that run beside the probe."""
    return tuple(sorted(lines)[:DEVICES])


def _number(text: str | None) -> int:
    return int(text) if text and _DIGITS.fullmatch(text) else 0
