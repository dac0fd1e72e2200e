"""Start, stop and list simulated SSH hosts."""

from __future__ import annotations

import functools
import shutil
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gpu_cluster_lab.simulator.hosts import keys, namespaced, plain, processes, rootfs
from gpu_cluster_lab.simulator.hosts.locks import locked
from gpu_cluster_lab.simulator.hosts.model import (
    HostError,
    HostSettings,
    HostStatus,
    SimulatedHost,
    Spec,
    check_loopback,
    check_name,
    hosts_dir,
)

START_LIMIT = 180.0
"""Seconds until a started host must send its SSH banner; on a busy machine it takes a minute."""
BANNER_LIMIT = 20.0
"""Seconds that one attempt waits for the banner: sshd starts a process for each connection."""
LOCK_LIMIT = 1000.0
"""Seconds to wait for the lock of another run, which may be creating the Debian root."""


def _print_nothing(_: str) -> None:
    return None


def up(
    name: str,
    hosts: Sequence[SimulatedHost],
    authorized_key: str,
    settings: HostSettings | None = None,
    progress: rootfs.Progress = _print_nothing,
) -> list[HostStatus]:
    """Make the running simulated hosts of the embedded cluster `name` match `hosts`.

    Hosts that already run as declared are not touched. A host whose declaration changed is
    restarted and keeps its files, like after a reboot. Hosts that are no longer declared are
    removed with their files.

    Args:
        name: Name of the embedded cluster.
        hosts: The declared hosts.
        authorized_key: One OpenSSH public key that may log in.
        settings: Simulated hardware of the hosts; None for the defaults of `HostSettings`.
        progress: Called with a line of text before each long step.

    Raises:
        HostError: An address is not loopback, a port is in use, or a host doesn't respond within
            `START_LIMIT` seconds. Hosts started by this call are stopped again.
    """
    settings = settings or HostSettings()
    for host in hosts:
        check_name("host", host.name)
        check_name("user", host.user)
        check_loopback(host)
    folder = hosts_dir(name)
    with locked(folder.with_name("hosts.lock"), limit=LOCK_LIMIT):
        specs = _host_specs(name, hosts, authorized_key, settings, progress)
        declared = {host.name for host in hosts}
        _remove(*(path for path in _host_folders(name) if path.name not in declared))
        started = []
        try:
            running = processes.find_each(folder / spec.name for spec in specs)
            for spec in specs:
                if _start_host(folder / spec.name, spec, bool(running[folder / spec.name])):
                    started.append(spec)
            for spec in started:
                _await_banner(folder / spec.name, spec)
        except BaseException:
            processes.end(*(folder / spec.name for spec in started))
            raise
    return status(name)


def _host_specs(
    name: str,
    hosts: Sequence[SimulatedHost],
    authorized_key: str,
    settings: HostSettings,
    progress: rootfs.Progress,
) -> list[Spec]:
    mode = settings.mode
    if mode is None:
        reason = namespaced.reason_against(name)
        mode = "plain" if reason else "namespaces"
        if reason:
            progress(f"hosts are plain processes with a scratch root: {reason}")
    lowers = {host.name: _lower_layer(mode, settings.system_of(host), progress) for host in hosts}
    layer = str(rootfs.fixture_layer()) if hosts else ""
    return [
        Spec(
            name=host.name,
            address=host.address,
            port=host.port,
            user=host.user,
            authorized_key=authorized_key.strip(),
            gpus=settings.gpus_of(host),
            driver=settings.driver_of(host),
            mode=mode,
            lower=lowers[host.name],
            layer=_overlay_layers(layer, settings.system_of(host)),
        )
        for host in hosts
    ]


RPM = ("rocky", "fedora")
"""Systems whose hosts have dnf and rpm in place of apt."""
ROOTS: Mapping[str, Callable[[rootfs.Progress], Path]] = {
    "debian": rootfs.debian_root,
    "docker": rootfs.docker_root,
    "rocky": rootfs.builder_root,
    "debian13": functools.partial(rootfs.debian_root, suite="trixie"),
    "fedora": rootfs.dnf5_root,
}


def _lower_layer(mode: str, system: str, progress: rootfs.Progress) -> str:
    if mode == "namespaces":
        return str(ROOTS[system](progress))
    if system in RPM:
        raise HostError(f"system {system}: an RPM host can only be had in namespaces; use debian")
    return ""


def _overlay_layers(layer: str, system: str) -> str:
    layers = [layer]
    if system in RPM:
        layers.insert(0, str(rootfs.rpm_layer()))
    if system == "fedora":
        layers.insert(0, str(rootfs.dnf5_layer()))
    return ":".join(layers)


def _start_host(folder: Path, spec: Spec, running: bool) -> bool:
    """Start a host unless it already runs as declared; return True if it was started."""
    previous = Spec.load(folder)
    if previous == spec and running and _has_banner(spec):
        return False
    processes.end(folder)
    if previous is not None and previous.mode != spec.mode:
        _remove(folder)
    _check_port(spec)
    ssh = folder / "ssh"
    shutil.rmtree(ssh, ignore_errors=True)
    ssh.mkdir(parents=True)
    host_key = ssh / "host_key"
    host_key.touch(mode=0o600)
    host_key.write_text(keys.host_private_key(spec.name))
    (ssh / "authorized_keys").write_text(spec.authorized_key + "\n")
    spec.save(folder)
    (namespaced.start if spec.mode == "namespaces" else plain.start)(folder, spec)
    return True


def _check_port(spec: Spec) -> None:
    family = socket.AF_INET6 if ":" in spec.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((spec.address, spec.port))
        except OSError as error:
            raise HostError(
                f"host {spec.name}: {spec.address}:{spec.port} can't be bound ({error.strerror}); "
                "end what listens there, or give the host another port in both files: the stack "
                "file, Pulumi.STACK.yaml, and the file of this name in lab/hardware/"
            ) from error


def _has_banner(spec: Spec) -> bool:
    try:
        address = (spec.address, spec.port)
        with socket.create_connection(address, timeout=BANNER_LIMIT) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _await_banner(folder: Path, spec: Spec) -> None:
    deadline = time.monotonic() + START_LIMIT
    while not _has_banner(spec):
        dead = not processes.lives(folder)
        if dead or time.monotonic() > deadline:
            log = folder / "log"
            lines = log.read_text(errors="replace").splitlines()[-5:] if log.exists() else []
            state = "it ended" if dead else f"no SSH banner within {START_LIMIT:.0f} s"
            raise HostError(
                f"host {spec.name}: {state} on {spec.address}:{spec.port}; its log: {log}; last "
                f"lines: {' / '.join(lines)}"
            )
        time.sleep(0.03)


def down(name: str) -> None:
    """Stop every simulated host of the embedded cluster `name` and remove its files.

    The hosts are found by their folders, so this also works after a failed or killed `up`. A second
    call does nothing.

    Raises:
        HostError: A process can't be stopped.
    """
    folder = hosts_dir(name)
    if not folder.parent.is_dir():
        return
    with locked(folder.with_name("hosts.lock"), limit=LOCK_LIMIT):
        _remove(*_host_folders(name))
        if folder.is_dir():
            folder.rmdir()
        folder.with_name("hosts.lock").unlink()


def _host_folders(name: str) -> list[Path]:
    folder = hosts_dir(name)
    return sorted(path for path in folder.iterdir()) if folder.is_dir() else []


def _remove(*folders: Path) -> None:
    processes.end(*folders)
    for folder in folders:
        shutil.rmtree(folder)


def status(name: str) -> list[HostStatus]:
    """Return the status of every simulated host of the embedded cluster `name`, by name."""
    rows = []
    for folder, pids in processes.find_each(_host_folders(name)).items():
        spec = Spec.load(folder)
        if spec is None:
            continue
        rows.append(
            HostStatus(
                name=spec.name,
                address=spec.address,
                port=spec.port,
                mode=spec.mode,
                running=bool(pids) and _has_banner(spec),
                pid=pids[0] if pids else None,
                root=_host_root(folder, spec),
            )
        )
    return rows


def root_of(name: str, host_name: str) -> Path | None:
    """Return the root folder of a running host's file system, readable from this machine.

    Return None if the host doesn't exist or doesn't run.
    """
    folder = hosts_dir(name) / host_name
    spec = Spec.load(folder)
    return _host_root(folder, spec) if spec else None


def _host_root(folder: Path, spec: Spec) -> Path | None:
    return namespaced.root(folder) if spec.mode == "namespaces" else plain.root(folder)
