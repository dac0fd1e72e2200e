"""A site's folder with an environment that has the wheels, and nothing of the clone."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.commands.files import ROOT
from gpu_cluster.commands.tools import PLUGINS
from gpu_cluster.kubernetes.api import Client, connect
from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator.hosts.packages import served
from gpu_cluster_lab.simulator.ports import free_ports
from tests.fixtures.programs import run_program
from tests.fixtures.wheels import make_environment

LIMIT = 600
RAN: set[str] = set()
"""Verbs that succeeded in a site, other than for their help."""
ANSWERED: set[str] = set()
"""Verbs that printed a JSON document in a site."""
WRITTEN: set[str] = set()
"""Files that `init` wrote for the site of this process."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


WATCH = """\
import os, sys

def _note(event, arguments):
    if event != "open" or not isinstance(arguments[0], str):
        return
    path = os.path.realpath(arguments[0])
    if path.startswith({clone!r}) and not path.startswith({others!r}):
        file = os.open({opened!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, os.fsencode(path) + b"\\n")
        os.close(file)

sys.addaudithook(_note)
"""
"""Module that each Python of a site loads: it writes down the files of the clone that it opens."""


@dataclass(frozen=True)
class Site:
    """A site's folder, with an environment that has wheels of a release.

    Attributes:
        folder: The repository.
        environment: Variables of a person's shell.
    """

    folder: Path
    environment: dict[str, str]

    @property
    def venv(self) -> Path:
        """Return the site's virtual environment."""
        return self.folder / "venv"

    @property
    def opened(self) -> Path:
        """Return the file with the paths of the clone's files that the site's programs opened."""
        return self.folder.with_name("opened")

    def run(
        self, *command: str | Path, given: str = "", **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the site's environment.

        Args:
            command: The program and its arguments.
            given: Standard input.
            more: More variables of the shell.
        """
        return self.shell_out(
            [self.folder / "venv" / "bin" / command[0], *command[1:]], given, more
        )

    def shell(self, line: str, **more: str) -> str:
        """Run a shell line in the site's folder, which must succeed; return its whole output."""
        done = self.shell_out(["sh", "-c", line], "", more)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def shell_out(
        self, command: list[str | Path], given: str, more: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the site's folder."""
        return run_program(
            command, cwd=self.folder, env={**self.environment, **more}, input=given, timeout=LIMIT
        )

    def succeeds(self, *words: str, **more: str) -> str:
        """Run a verb, which must succeed; return what it prints."""
        done = self.run("gpu-cluster", *words, **more)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        RAN.add(words[0])
        return done.stdout

    def answers(self, *words: str, **more: str) -> Any:
        """Run a verb, which must succeed; return the JSON document that it prints."""
        document = json.loads(self.succeeds(*words, "--output", "json", **more))
        ANSWERED.add(words[0])
        return document


def last(text: str) -> str:
    """Return the last line of a text."""
    return text.rstrip().rpartition("\n")[2]


def pulumi_path(site: Site) -> str:
    """Return PATH with a site's environment, and with Pulumi and its plugins of the toolchain."""
    return os.pathsep.join([str(site.venv / "bin"), tools_path()])


def tools_path() -> str:
    """Return PATH with Pulumi and its plugins of the toolchain."""
    tools = toolchain.ensure("pulumi", "pulumi-language-python", *PLUGINS)
    folders = dict.fromkeys(str(tool.path.parent) for tool in tools.values())
    return os.pathsep.join([*folders, PATH])


def kubeconfig(site: Site, stack: str = "dev") -> Path:
    """Return the kubeconfig of an embedded cluster of the site."""
    return Path(site.environment["GPU_CLUSTER_CACHE"], "embedded", stack, "kubeconfig")


def ask(
    site: Site, question: Callable[[Client], Coroutine[Any, Any, Any]], stack: str = "dev"
) -> Any:
    """Run a coroutine with a client of an embedded cluster."""

    async def run() -> Any:
        async with connect(f"gpu-cluster-{stack}") as client:
            return await question(client)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(kubeconfig(site, stack)))
        return asyncio.run(run())


def real_stack(site: Site, folder: Path) -> dict[str, str]:
    """Return the environment of a stack whose cluster is not the stack's embedded cluster."""
    passphrase = folder / "passphrase"
    passphrase.write_text("correct horse battery staple\n")
    charts = site.run(
        "python", "-c", "import gpu_cluster_lab.simulator as s; print(s.__path__[0])"
    ).stdout.strip()
    return {
        "KUBECONFIG": str(kubeconfig(site)),
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(passphrase),
        "GPU_CHARTS": site.environment.get("GPU_CHARTS", f"{charts}/charts"),
    }


def make_site(place: Path, cache: Path) -> Site:
    """Return a site in an empty folder, with an empty HOME.

    Args:
        place: An empty folder.
        cache: The folder of the toolchain, of embedded clusters and of local states.
    """
    folder = place / "gpu site"
    for made in (folder, place / "home"):
        made.mkdir(parents=True)
    environment = {
        "HOME": str(place / "home"),
        "PATH": PATH,
        "LANG": "C.UTF-8",
        "GPU_CLUSTER_CACHE": str(cache),
    }
    if charts := os.environ.get("GPU_CHARTS"):
        environment["GPU_CHARTS"] = str(Path(charts).resolve())
    return Site(folder, environment)


def make_cache(cache: Path) -> Path:
    """Make a cache folder that shares the tools of this machine, and nothing else."""
    cache.mkdir()
    for name in ("tools", "roots"):
        shared = toolchain.cache_dir() / name
        shared.mkdir(parents=True, exist_ok=True)
        (cache / name).symlink_to(shared.resolve())
    return cache


def install(environment: Path, address: str, names: Iterable[str]) -> None:
    """Make a virtual environment unless it exists, and install packages from an index.

    The packages of others are those of this environment: the index has only this project's.

    Args:
        address: Address of the index.
        names: Requirements, such as ``gpu-cluster==0.1.0``.
    """
    if not (environment / "bin").exists():
        make_environment(environment, ())
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    target = ["--python", str(environment / "bin" / "python"), "install", "--no-deps"]
    index = ["--index-url", address, "--no-cache-dir"]
    subprocess.run([*pip, *target, *index, *names], check=True)


def watch(site: Site) -> None:
    """Let each Python of a site write down the files of the clone that it opens.

    The environment of the clone isn't part of it: there stand the packages of others.
    """
    (packages,) = site.venv.glob("lib/python*/site-packages")
    values = {"clone": f"{ROOT}{os.sep}", "others": f"{Path(sys.prefix).resolve()}{os.sep}"}
    (packages / "sitecustomize.py").write_text(WATCH.format(**values, opened=str(site.opened)))


def use_free_ports(site: Site) -> None:
    """Change the ports of the hosts of stack `dev`: another stack of this machine may use them."""
    file = site.folder / "Pulumi.dev.yaml"
    text = file.read_text()
    for declared, port in zip(("22101", "22102"), free_ports(2), strict=True):
        assert declared in text
        text = text.replace(declared, str(port))
    file.write_text(text)


def uninstall(site: Site, names: Iterable[str]) -> None:
    """Uninstall packages from a site's environment."""
    python = str(site.folder / "venv" / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "--python", python, "uninstall", "--yes", *names], check=True)


@contextmanager
def index(wheels: Iterable[Path], folder: Path) -> Iterator[str]:
    """Serve wheels as a package index on this machine; yield its address.

    The form is PEP 503's: a folder for each package, which lists its files.
    """
    for wheel in wheels:
        name = wheel.name.partition("-")[0].replace("_", "-")
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / wheel.name).symlink_to(wheel)
    with served(folder) as address:
        yield f"{address}/"
