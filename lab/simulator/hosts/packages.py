"""Small packages of our own, as .deb and .rpm, in repositories with signed metadata.

They imitate a distribution's, NVIDIA's and Kubernetes' packages on simulated hosts, so that the
real package managers do the work: resolve, verify, unpack, run maintainer scripts. Built in a root
of the cache that has the tools, from texts of this folder; nothing is downloaded or committed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import http.server
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import toolchain
from lab.simulator.hosts import rootfs
from lab.simulator.hosts.locks import locked
from lab.simulator.hosts.model import HostError

Format = Literal["apt", "dnf"]
Signature = Literal["good", "none", "other", "broken"]
"""``other``: signed by a key that nobody was given. ``broken``: changed after it was signed."""

BUILDER = Path(__file__).with_name("build_repository.sh")
BUILD_LIMIT = 300
"""Seconds for one repository (two seconds each, and a key pair the first time)."""


@dataclasses.dataclass(frozen=True)
class Package:
    """One package.

    Attributes:
        name: as the package manager calls it.
        version: ``<version>-<release>``, without an architecture.
        files: content by absolute path; a :class:`~pathlib.Path` is copied, text is written.
            Everything below a ``bin`` or ``sbin`` folder is executable.
        depends: names, each with ``= version`` if need be (``nvidia-driver = 595.91.07-1``).
        provides: virtual names, likewise.
        conflicts: names that can't be there at the same time, likewise.
        installed: sh that runs after the files are there, in both formats.
        removed: sh that runs before the files go.
    """

    name: str
    version: str
    files: Mapping[str, str | Path] = dataclasses.field(default_factory=dict)
    depends: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    installed: str = ""
    removed: str = ""


SHELL = Package("simulated-shell", "1-1", provides=("/bin/sh",))
"""In each dnf repository: an RPM host's shell is Debian's, which rpm knows nothing of."""


@dataclasses.dataclass(frozen=True)
class PackageRepository:
    """A built repository: its folder on this machine, and the armored key that signs it."""

    folder: Path
    key: str


def build(
    form: Format, packages: Sequence[Package], signature: Signature = "good", modules: str = ""
) -> PackageRepository:
    """The repository that holds exactly ``packages``; from the cache where it was built before.

    Metadata and, with ``dnf``, each package are signed. ``modules``: dnf's ``modules.yaml``.

    :raises HostError: the builder's root can't be made, or a tool in it fails.
    """
    if form == "dnf":
        packages = (*packages, SHELL)
    parts = _parts(packages)
    digest = hashlib.sha256(f"{form} {signature} {BUILDER.read_text()} {modules}".encode())
    digest.update(json.dumps([{**part, "files": None} for part in parts]).encode())
    for package in packages:
        digest.update(_spec(package).encode() if form == "dnf" else b"")
        for path, content in sorted(package.files.items()):
            data = content.read_bytes() if isinstance(content, Path) else content.encode()
            digest.update(f"{package.name} {path} {hashlib.sha256(data).hexdigest()}".encode())
    home = toolchain.cache_dir() / "roots" / "repositories"
    folder = home / digest.hexdigest()[:16]
    signer = "other" if signature == "other" else "ours"
    if not folder.is_dir():
        root = rootfs.builder_root(lambda _: None)
        with locked(home.with_name("repositories.lock"), limit=BUILD_LIMIT * 4):
            if not folder.is_dir():
                draft = home / "draft"
                shutil.rmtree(draft, ignore_errors=True)
                _lay_out(draft, parts, packages)
                if modules:
                    (draft / "modules.yaml").write_text(modules)
                _run(root, home, f"{form} {signature} {signer}")
                (draft / "repository").rename(folder)
                shutil.rmtree(draft)
    return PackageRepository(folder, (home / "keys" / "ours.asc").read_text())


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve ``folder`` on loopback by HTTP; gives the address, without a slash at its end."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Quiet: what is asked for is the package manager's business."""

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))
    )
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _parts(packages: Sequence[Package]) -> list[dict[str, object]]:
    return [dataclasses.asdict(package) for package in packages]


def _lay_out(
    draft: Path, parts: Sequence[Mapping[str, object]], packages: Sequence[Package]
) -> None:
    """One folder per package: ``tree`` (its files), ``control``, ``spec``, scripts."""
    for package in packages:
        folder = draft / "packages" / f"{package.name}_{package.version.replace(':', '%3a')}"
        tree = folder / "tree"
        tree.mkdir(parents=True)
        for path, content in package.files.items():
            target = tree / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                shutil.copyfile(content, target)
            else:
                target.write_text(content)
            target.chmod(0o755 if {"bin", "sbin"} & set(target.parts) else 0o644)
        debian = tree / "DEBIAN"
        debian.mkdir()
        (debian / "control").write_text(_control(package))
        # As dh_installdeb(1) does: a purge takes them, an upgrade asks before it changes them.
        if conffiles := sorted(path for path in package.files if path.startswith("/etc/")):
            (debian / "conffiles").write_text("".join(f"{path}\n" for path in conffiles))
        for name, text in (("postinst", package.installed), ("prerm", package.removed)):
            if text:
                (debian / name).write_text(f"#!/bin/sh\nset -e\n{text}\n")
                (debian / name).chmod(0o755)
        (folder / "spec").write_text(_spec(package))


def _control(package: Package) -> str:
    lines = [
        f"Package: {package.name}",
        f"Version: {package.version}",
        "Architecture: all",
        "Maintainer: gpu-cluster <simulated@gpu-cluster.invalid>",
        f"Description: {package.name} (simulated by gpu-cluster)",
    ]
    relations = {
        "Depends": package.depends,
        "Provides": package.provides,
        "Conflicts": package.conflicts,
        "Replaces": package.conflicts,
    }
    for field, names in relations.items():
        if names:
            lines.append(f"{field}: {', '.join(_debian_relation(name) for name in names)}")
    return "\n".join(lines) + "\n"


def _debian_relation(text: str) -> str:
    """``a = 1`` as ``a (= 1)``; what is in Debian's own form stays."""
    match = re.fullmatch(r"(\S+) (=|>=|<=) (\S+)", text)
    return f"{match[1]} ({match[2]} {match[3]})" if match else text


def _spec(package: Package) -> str:
    full, _, release = package.version.rpartition("-")
    epoch, _, version = full.rpartition(":")
    lines = [
        f"Name: {package.name}",
        f"Epoch: {epoch or 0}",
        f"Version: {version}",
        f"Release: {release}",
        f"Summary: {package.name} (simulated by gpu-cluster)",
        "License: none",
        "BuildArch: noarch",
        "AutoReqProv: no",
        *(f"Requires: {name}" for name in package.depends),
        *(f"Provides: {name}" for name in package.provides),
        *(f"Conflicts: {name}" for name in package.conflicts),
        "%description",
        f"{package.name} (simulated by gpu-cluster)",
        "%install",
        "cp -a %{_tree}/. %{buildroot}/",
        "rm -rf %{buildroot}/DEBIAN",
        "%files",
        # rpm, unlike dpkg, leaves folders that no package owns.
        *sorted({f"%dir {path.rpartition('/')[0]}" for path in package.files if "/src/" in path}),
        *(
            f"%config(noreplace) {path}" if path.startswith("/etc/") else path
            for path in sorted(package.files)
        ),
    ]
    if package.installed:
        lines += ["%post", package.installed]
    if package.removed:
        lines += ["%preun", package.removed]
    return "\n".join(lines) + "\n"


def _run(root: Path, home: Path, arguments: str) -> None:
    """Run the builder in its root, in namespaces that end with it: no mount or agent is left."""
    (root / "mnt/repositories").mkdir(parents=True, exist_ok=True)
    (home / "build.sh").write_text(BUILDER.read_text())
    inner = (
        'mount --bind "$2" "$1/mnt/repositories" && mount -t proc proc "$1/proc" && '
        # Nothing of the caller's environment: its TMPDIR is not in the root.
        "exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "
        f'chroot "$1" sh /mnt/repositories/build.sh {arguments}'
    )
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL"]
    command += ["sh", "-c", inner, "sh", str(root), str(home)]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_LIMIT,
        check=False,
    )
    if done.returncode != 0:
        raise HostError(f"a repository can't be built: {(done.stdout + done.stderr)[-800:]}")
