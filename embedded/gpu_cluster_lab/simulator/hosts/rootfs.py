"""File systems of simulated hosts: a Debian root, and a layer of fakes on top.

Both are created once in `roots/` of the cache, with a hash of their contents in the name, and
become visible by one rename, so an incomplete root is never used. The Debian root is created by
`debootstrap`, which requires root rights. Layers that nothing has used for weeks are removed when a
new one is created.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator.hosts.locks import locked
from gpu_cluster_lab.simulator.hosts.model import HostError, Spec

SUITE = "bookworm"
PACKAGES: tuple[str, ...] = (
    "ca-certificates",
    "containerd",
    "iproute2",
    "kmod",
    "openssh-server",
    "procps",
    "sudo",
)
BUILDER_PACKAGES = (
    *PACKAGES,
    *("apt-utils", "createrepo-c", "curl", "dnf", "dnf-plugins-core", "gnupg", "rpm"),
)
"""Debian packages for building repositories, and for the file system under an RPM host's layer."""
DOCKER_PACKAGES = (*PACKAGES, "docker.io", "iptables")
DNF5_PACKAGES = (*PACKAGES, "dnf5", "rpm")
FIXTURES = Path(__file__).parent / "fixtures"
FIXTURES_RPM = Path(__file__).parent / "fixtures_rpm"
FIXTURES_DNF5 = Path(__file__).parent / "fixtures_dnf5"
HIDDEN_ON_RPM = (
    *(f"usr/bin/{name}" for name in ("apt", "apt-cache", "apt-get", "apt-mark")),
    *(f"usr/bin/{name}" for name in ("dpkg", "dpkg-query", "createrepo_c", "rpmbuild")),
    "boot/grub",
    "boot/vmlinuz-6.1.0-40-amd64",
    "etc/apt/sources.list",
    "usr/sbin/grub-mkconfig",
    "usr/sbin/update-initramfs",
)
DEBOOTSTRAP_LIMIT = 900
"""Timeout in seconds of one debootstrap run; it takes 40 s on 2 cores and a near mirror."""
DAY = 24 * 60 * 60
KEPT = 14 * DAY
"""Seconds after its last use in which a layer is kept, because older commits may use it again."""

Progress = Callable[[str], None]


class NoDebootstrap(HostError):
    """Error: this machine has no debootstrap and cannot install it."""


def reason_against() -> str | None:
    """Return why the Debian root can't be created on this machine; None if it can or exists."""
    if _root_place("debian", PACKAGES).is_dir():
        return None
    if shutil.which("debootstrap") or shutil.which("apt-get"):
        return None
    return "no debootstrap on PATH (package debootstrap), and no apt-get that installs it"


def debian_root(progress: Progress, suite: str = SUITE) -> Path:
    """Return the read-only Debian root that all simulated hosts share; create it if missing.

    Raises:
        HostError: debootstrap is missing and can't be installed, or debootstrap fails.
    """
    return _build_root("debian", PACKAGES, progress, suite)


def builder_root(progress: Progress) -> Path:
    """Return a Debian root with `dnf`, `rpm` and repository tools; create it if missing.

    Raises:
        HostError: debootstrap is missing and can't be installed, or debootstrap fails.
    """
    return _build_root("builder", BUILDER_PACKAGES, progress)


def docker_root(progress: Progress) -> Path:
    """Return a Debian root with Docker in addition to containerd; create it if missing.

    Raises:
        HostError: debootstrap is missing and can't be installed, or debootstrap fails.
    """
    return _build_root("docker", DOCKER_PACKAGES, progress)


def dnf5_root(progress: Progress) -> Path:
    """Return a root of Debian's unstable suite, the only one with dnf 5; create it if missing.

    Raises:
        HostError: debootstrap is missing and can't be installed, or debootstrap fails.
    """
    return _build_root("dnf5", DNF5_PACKAGES, progress, "sid")


def _root_place(name: str, packages: Sequence[str], suite: str = SUITE) -> Path:
    key = hashlib.sha256("\n".join((suite, *packages)).encode()).hexdigest()[:12]
    return toolchain.cache_dir() / "roots" / f"{name}-{suite}-{key}"


def _build_root(name: str, packages: Sequence[str], progress: Progress, suite: str = SUITE) -> Path:
    root = _root_place(name, packages, suite)
    roots = root.parent
    if root.is_dir():
        return root
    with locked(roots / "roots.lock", limit=DEBOOTSTRAP_LIMIT + 60):
        if not root.is_dir():
            _remove_unused(roots)
            _ensure_debootstrap(progress)
            draft = roots / f"draft-{os.getpid()}"
            progress(f"Debian {suite} root ({name}) by debootstrap (once, about 1 min)")
            _run_debootstrap(draft, packages, suite)
            draft.rename(root)
    return root


def fixture_layer() -> Path:
    """Return the overlay layer on top of the Debian root: the fakes and the real `nvidia-ctk`."""
    ctk = toolchain.ensure("nvidia-ctk")["nvidia-ctk"]
    stamp = f"{ctk.version}\0{ctk.path}\0{_file_stamp(Path(ctk.path))}"
    return _build_layer("layer", FIXTURES, stamp, {"usr/bin/nvidia-ctk": Path(ctk.path)}, ())


def rpm_layer() -> Path:
    """Return the additional overlay layer of an RPM host.

    It has Rocky Linux's program names and hides apt.
    """
    copies = {"usr/sbin/grub2-mkconfig": FIXTURES / "usr/sbin/grub-mkconfig"}
    stamp = "".join(path.read_text() for path in copies.values())
    return _build_layer("layer-rpm", FIXTURES_RPM, stamp, copies, HIDDEN_ON_RPM)


def dnf5_layer() -> Path:
    """Return the additional overlay layer of a host with dnf 5, which Fedora also calls dnf."""
    return _build_layer("layer-dnf5", FIXTURES_DNF5, "", {}, ())


def _build_layer(
    name: str, fixtures: Path, stamp: str, copies: Mapping[str, Path], hidden: Sequence[str]
) -> Path:
    """Return an overlay layer's folder with the files of `fixtures` and `copies`.

    Overlay whiteouts hide the paths in `hidden`.
    """
    files = sorted(path for path in fixtures.rglob("*") if path.is_file())
    digest = hashlib.sha256("\0".join((stamp, *copies, *hidden)).encode())
    for path in files:
        digest.update(f"{path.relative_to(fixtures)}\0".encode() + path.read_bytes())
    roots = toolchain.cache_dir() / "roots"
    layer = roots / f"{name}-{digest.hexdigest()[:12]}"
    # No other process deletes a layer of this age, so no lock is needed. Renew an older layer under
    # the lock.
    if layer.is_dir() and _layer_age(layer) < DAY:
        return layer
    with locked(roots / "roots.lock", limit=DEBOOTSTRAP_LIMIT + 60):
        if layer.is_dir():
            os.utime(layer)
        else:
            _remove_unused(roots)
            draft = roots / f"draft-{os.getpid()}"
            sources = {str(path.relative_to(fixtures)): path for path in files} | dict(copies)
            for inside, path in sources.items():
                target = draft / inside
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
                target.chmod(0o755 if {"bin", "sbin"} & set(Path(inside).parts) else 0o644)
            for inside in hidden:
                (draft / inside).parent.mkdir(parents=True, exist_ok=True)
                os.mknod(draft / inside, 0o600 | stat.S_IFCHR, os.makedev(0, 0))
            for folder in (draft, *draft.rglob("*")):
                if folder.is_dir():
                    folder.chmod(0o755)
            draft.rename(layer)
    return layer


def _file_stamp(path: Path) -> str:
    status = path.stat()
    return f"{status.st_size}-{status.st_mtime_ns}"


def _layer_age(layer: Path) -> float:
    """Return the seconds since a layer was made or last renewed by a run that used it."""
    return time.time() - layer.stat().st_mtime


def _remove_unused(roots: Path) -> None:
    """Remove layers that nothing uses any more, and incomplete folders that a killed run left.

    The caller must hold the lock of the roots.
    """
    old = [layer for layer in roots.glob("layer-*") if _layer_age(layer) > KEPT]
    used = _used_layers() if old else ""
    for layer in old:
        if layer.name not in used:
            # A run that is killed here leaves a draft, not an incomplete layer.
            with contextlib.suppress(
                OSError
            ):  # Ignore the error: a leftover file must not stop the run.
                layer.rename(roots / f"draft-{layer.name}")
    for draft in roots.glob("draft-*"):
        if draft.is_dir():
            # Ignore the error, because the next run tries again: a leftover must not stop the run.
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)


def _used_layers() -> str:
    """Return a text with the names of all layers that a host has or that are mounted."""
    clusters = toolchain.cache_dir() / "embedded"
    specs = [Spec.load(folder) for folder in clusters.glob("*/hosts/*")]
    mounts = []
    for path in Path("/proc").glob("[0-9]*/mountinfo"):
        with contextlib.suppress(OSError):  # The process has ended.
            mounts.append(path.read_text(errors="replace"))
    return "\n".join([*(spec.layer for spec in specs if spec), *mounts])


def _ensure_debootstrap(progress: Progress) -> None:
    if shutil.which("debootstrap"):
        return
    if not shutil.which("apt-get"):
        raise NoDebootstrap(
            "debootstrap: not found on PATH; wanted for simulated hosts in namespaces. Install the "
            "package debootstrap; without it the hosts are plain processes with a scratch root"
        )
    progress("installing debootstrap (apt-get)")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "-o", "DPkg::Lock::Timeout=60", "install", "-y", "-qq", "debootstrap"]
    for command in (install, ["apt-get", "update", "-qq"], install):
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        if command is install and done.returncode == 0:
            return
    raise NoDebootstrap(f"apt-get install debootstrap failed: {done.stderr.strip()[-500:]}")


def _run_debootstrap(draft: Path, packages: Sequence[str], suite: str) -> None:
    """Run debootstrap in its own mount namespace, so that no mount remains if it is killed."""
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "debootstrap"]
    command += ["--variant=minbase", f"--include={','.join(packages)}", suite, str(draft)]
    log = draft.with_suffix(".log")
    with log.open("w") as output:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=DEBOOTSTRAP_LIMIT,
            check=False,
        )
    if done.returncode != 0:
        raise HostError(
            f"debootstrap {suite} failed with status {done.returncode}; its log: {log}; last "
            f"lines: {' / '.join(log.read_text().splitlines()[-3:])}"
        )
    for key in (draft / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    shutil.rmtree(draft / "var/cache/apt/archives", ignore_errors=True)
    log.unlink()
