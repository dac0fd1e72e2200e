"""Build small .deb and .rpm packages, in repositories with signed metadata.

The packages imitate those of distributions, NVIDIA and Kubernetes on simulated hosts, so that the
real package managers do the work: resolve, verify, unpack, run maintainer scripts. The build runs
in a cached root file system that has the build tools, with files in this folder. Nothing is
downloaded or committed.
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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator.hosts import rootfs
from gpu_cluster_lab.simulator.hosts.locks import locked
from gpu_cluster_lab.simulator.hosts.model import HostError
from gpu_cluster_lab.simulator.http_servers import QuietHandler, running

Format = Literal["apt", "dnf"]
Signature = Literal["good", "none", "other", "broken"]
"""Signature of a repository:

`other` is signed with an unknown key, `broken` was changed after signing.
"""

BUILDER = Path(__file__).with_name("build_repository.sh")
DESCRIBER = Path(__file__).with_name("describe_repository.sh")
BUILD_LIMIT = 300
"""Timeout in seconds for building one repository; it takes two seconds, and a key pair once."""


@dataclasses.dataclass(frozen=True)
class Package:
    """Package to build, as .deb or .rpm.

    Attributes:
        name: Package name.
        version: `<version>-<release>`, without an architecture.
        files: Content by absolute path; a `pathlib.Path` is copied, text is written. All files in a
            `bin` or `sbin` folder are executable.
        depends: Names of required packages, optionally with a version (`nvidia-driver =
            595.91.07-1`).
        provides: Virtual package names, optionally with a version.
        conflicts: Names of packages that can't be installed together with this package.
        installed: Shell script that runs after the files are installed, in both formats.
        removed: Shell script that runs before the files are removed.
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
"""Package that provides /bin/sh, in each dnf repository.

The shell of a simulated RPM host is Debian's, which the rpm database doesn't list.
"""


@dataclasses.dataclass(frozen=True)
class PackageRepository:
    """Built package repository: its folder on this machine, and its public signing key."""

    folder: Path
    key: str


def build(
    form: Format,
    packages: Sequence[Package],
    signature: Signature = "good",
    modules: str = "",
    release: str = "",
) -> PackageRepository:
    """Build a repository that contains exactly `packages`, or return it from the cache.

    The metadata is signed, and with `dnf` also each package. `modules` is the text of dnf's
    `modules.yaml`. `release` has lines `Origin=Ubuntu`: the fields of apt's Release file, by which
    unattended-upgrades knows the repositories of the distribution.

    Raises:
        HostError: The root with the build tools can't be created, or a build tool fails.
    """
    if form == "dnf":
        packages = (*packages, SHELL)
    descriptions = _describe_packages(packages)
    digest = hashlib.sha256(f"{form} {signature} {BUILDER.read_text()} {modules}".encode())
    digest.update(f"{DESCRIBER.read_text()} {release}".encode() if release else b"")
    digest.update(
        json.dumps([{**description, "files": None} for description in descriptions]).encode()
    )
    for package in packages:
        digest.update(_rpm_spec(package).encode() if form == "dnf" else b"")
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
                _lay_out(draft, descriptions, packages)
                if modules:
                    (draft / "modules.yaml").write_text(modules)
                _run_script(root, home, BUILDER, f"{form} {signature} {signer}")
                if release:
                    (draft / "release").write_text(release)
                    _run_script(root, home, DESCRIBER, signer)
                (draft / "repository").rename(folder)
                shutil.rmtree(draft)
    return PackageRepository(folder, (home / "keys" / "ours.asc").read_text())


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve `folder` over HTTP on loopback; yield the URL without a trailing slash."""
    handler = functools.partial(_FolderHandler, directory=str(folder))
    with running(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)) as address:
        yield address


class _FolderHandler(QuietHandler, http.server.SimpleHTTPRequestHandler):
    """Handler that serves the files of a folder."""


def _describe_packages(packages: Sequence[Package]) -> list[dict[str, object]]:
    return [dataclasses.asdict(package) for package in packages]


def _lay_out(
    draft: Path, descriptions: Sequence[Mapping[str, object]], packages: Sequence[Package]
) -> None:
    """Write a source folder for each package: its files, control and spec file, and scripts."""
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
        (debian / "control").write_text(_deb_control(package))
        # Mark files in /etc as configuration files, as dh_installdeb(1) does: a purge removes them,
        # and an upgrade prompts before it changes them.
        if conffiles := sorted(path for path in package.files if path.startswith("/etc/")):
            (debian / "conffiles").write_text("".join(f"{path}\n" for path in conffiles))
        for name, text in (("postinst", package.installed), ("prerm", package.removed)):
            if text:
                (debian / name).write_text(f"#!/bin/sh\nset -e\n{text}\n")
                (debian / name).chmod(0o755)
        (folder / "spec").write_text(_rpm_spec(package))


def _deb_control(package: Package) -> str:
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
    """Convert the relation `a = 1` to Debian's form `a (= 1)`; return any other text unchanged."""
    match = re.fullmatch(r"(\S+) (=|>=|<=) (\S+)", text)
    return f"{match[1]} ({match[2]} {match[3]})" if match else text


def _rpm_spec(package: Package) -> str:
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
        # List the folders here as well: rpm, unlike dpkg, doesn't remove folders that no package
        # owns.
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


def _run_script(root: Path, home: Path, script: Path, arguments: str) -> None:
    """Run a script in the root with the build tools, in its own namespaces.

    The namespaces end with the script, so that no mount and no gpg-agent remains.
    """
    (root / "mnt/repositories").mkdir(parents=True, exist_ok=True)
    (home / "build.sh").write_text(script.read_text())
    inner = (
        'mount --bind "$2" "$1/mnt/repositories" && mount -t proc proc "$1/proc" && '
        # Use an empty environment, because the folder in the caller's TMPDIR doesn't exist in the
        # root.
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
