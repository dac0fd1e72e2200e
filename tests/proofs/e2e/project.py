"""Copy of the project with its own stack, embedded cluster and state, for end-to-end tests."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from gpu_cluster.commands.embedded_cluster import erase
from gpu_cluster.commands.environment import local_backend
from gpu_cluster.commands.files import copy_project
from gpu_cluster.commands.verbs import BY_NAME
from gpu_cluster.kubernetes.api import Client, connect
from gpu_cluster.loading.loader import load
from gpu_cluster_lab import simulator, toolchain
from gpu_cluster_lab.simulator import hosts as simulated_hosts
from gpu_cluster_lab.simulator.hardware import write_hardware
from gpu_cluster_lab.simulator.ports import free_ports
from gpu_rules.faults import ConfigError
from tests.fixtures.programs import run_program
from tests.simulated import declared_hardware

LIMIT = 900
"""Time limit of one command in seconds."""
PRIVATE = re.compile("BEGIN OPENSSH PRIVATE KEY")
LAST = re.compile(
    r"up: (\d+) of (\d+) GPUs simulated,(?: \d+ nodes? in maintenance,)? (\d+) resources changed, "
    r"\d+ s"
)
DROP_IN = "etc/containerd/conf.d/99-nvidia.toml"
"""Path of a file on a prepared host, relative to the host's root."""

Json = dict[str, Any]
T = TypeVar("T")


def verb_words(name: str, values: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the words of a command line, and the values that are no options of the verb.

    Args:
        name: The verb, also with underscores.
        values: Values by names in capital letters, such as ``FROM_CLUSTER``.
    """
    verb, more = BY_NAME[name.replace("_", "-")], dict(values)
    words = [verb.name]
    for option in verb.options:
        value = more.pop(option.parameter.upper(), "")
        if value and option.is_position:
            words.append(value)
        elif value:
            words.append(f"--{option.name}={value}" if option.value else f"--{option.name}")
    return words, more


@dataclass
class Project:
    """Copy of the project, with the commands that a user types in it."""

    root: Path
    state: Path
    stack: str
    environment: dict[str, str] = field(default_factory=dict)
    around: tuple[str, ...] = ()
    """Command put before all commands; it runs its arguments, for example in a namespace."""
    limit: int = LIMIT
    """Time limit of one command in seconds."""

    @classmethod
    def make(cls, folder: Path, stack: str) -> Project:
        root, state = folder / "project", folder / "state"
        copy_project(root)
        state.mkdir()
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PULUMI_", "KUBECONFIG", "GPU_CHARTS"))
        }
        environment = {
            **kept,
            "STACK": stack,
            "PULUMI_BACKEND_URL": local_backend(state),
            "GPU_CHARTS": os.environ.get("GPU_CHARTS", "embedded/gpu_cluster_lab/simulator/charts"),
        }
        project = cls(root, state, stack, environment)
        project.write(project.declared())
        return project

    def declared(self) -> Json:
        """Return the initial configuration: 4 nodes with 8 GPUs each, 2 of them SSH hosts."""
        ports = free_ports(2)
        return {
            "version": "v1",
            "kubernetes": {"context": f"gpu-cluster-{self.stack}"},
            "platform": "device-plugin",
            "validation": {"timeoutSeconds": 120},
            "pools": [{"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8}],
            "hosts": [
                {
                    "name": f"gpu-{number}",
                    "role": "gpu-worker",
                    "address": "127.0.0.1",
                    "port": port,
                    "hostKey": simulated_hosts.host_public_key(f"gpu-{number}"),
                }
                for number, port in enumerate(ports, start=1)
            ],
        }

    @property
    def file(self) -> Path:
        return self.root / f"Pulumi.{self.stack}.yaml"

    def read(self) -> Json:
        content: Json = yaml.safe_load(self.file.read_text())["config"]["gpu-cluster:cluster"]
        return content

    def write(self, cluster: Json, *, hardware: bool = True) -> None:
        """Write the stack file and, by default, a hardware file with the declared machines."""
        self.file.write_text(yaml.safe_dump({"config": {"gpu-cluster:cluster": cluster}}))
        if hardware:
            # Some tests write an invalid stack file on purpose, whose faults the commands must
            # report.
            with suppress(ConfigError):
                write_hardware(self.hardware_file, self.stack, declared_hardware(load(cluster)))

    @property
    def hardware_file(self) -> Path:
        return self.root / "lab" / "hardware" / f"{self.stack}.yaml"

    def edit(self, change: Callable[[Json], None], *, hardware: bool = True) -> None:
        cluster = self.read()
        change(cluster)
        self.write(cluster, hardware=hardware)

    def command(self, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a verb of `gpu-cluster`; return its output and exit code.

        Args:
            name: The verb.
            environment: Values of the verb's options, by their names in capital letters, and
                variables of the environment.
        """
        words, more = verb_words(name, environment)
        return run_program(
            [*self.around, "venv/bin/python", "-m", "gpu_cluster.commands", *words],
            cwd=self.root,
            env={**self.environment, **more},
            stderr=subprocess.STDOUT,
            timeout=self.limit,
        )

    def up(self) -> str:
        """Run `gpu-cluster up`, which must succeed; return the last line of its output."""
        done = self.command("up")
        assert done.returncode == 0, done.stdout
        assert not PRIVATE.search(done.stdout)
        return done.stdout.strip().splitlines()[-1]

    def shell_environment(self) -> dict[str, str]:
        """Return the environment variables that `eval "$(gpu-cluster env)"` sets in a shell."""
        done = subprocess.run(
            ["sh", "-c", 'eval "$(venv/bin/python -m gpu_cluster.commands env)" && env -0'],
            cwd=self.root,
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        return dict(line.split("=", 1) for line in done.stdout.split("\0") if "=" in line)

    def pulumi(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `pulumi` directly, as a user types it."""
        return run_program(
            ["pulumi", *arguments, "--non-interactive", "--color", "never"],
            cwd=self.root,
            env={**self.shell_environment(), **environment},
            stderr=subprocess.STDOUT,
            timeout=LIMIT,
        )

    def kill_during(self, command: str, text: str) -> str:
        """Start a command, and kill its engine with SIGKILL as soon as the output has ``text``."""
        process = subprocess.Popen(
            ["venv/bin/python", "-m", "gpu_cluster.commands", command],
            cwd=self.root,
            env={**self.environment, "VERBOSE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        output = []
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line)
            if text in line:
                (engine,) = _children(process.pid, "pulumi")
                os.kill(engine, signal.SIGKILL)
                break
        rest, _ = process.communicate(timeout=LIMIT)
        assert process.returncode != 0, "".join(output) + rest
        return "".join(output) + rest

    @property
    def kubeconfig(self) -> Path:
        """Return the path of the embedded cluster's kubeconfig, which has administrator rights."""
        return toolchain.cache_dir() / "embedded" / self.stack / "kubeconfig"

    @property
    def secrets(self) -> list[str]:
        """Return the secret values in the embedded cluster's kubeconfig: keys and tokens."""
        kept = {"client-key-data", "token", "password"}
        users = yaml.safe_load(self.kubeconfig.read_text())["users"]
        return [value for user in users for key, value in user["user"].items() if key in kept]

    def host_root(self, host: str) -> Path:
        root = simulated_hosts.root_of(self.stack, host)
        assert root is not None
        return root

    def fault(self, node: str, *faults: str) -> None:
        simulator.set_fault(self.stack, node, *faults)

    def request(self, method: str, url: str, **options: Any) -> Any:
        """Send a request to the embedded cluster's API server; return the response."""
        return self.ask(lambda client: client.request(method, url, **options))

    def ask(self, question: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine with a client of the embedded cluster's API server; return its result."""

        async def run() -> T:
            async with connect(f"gpu-cluster-{self.stack}") as client:
                return await question(client)

        kubeconfig = self.kubeconfig
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KUBECONFIG", str(kubeconfig))
            return asyncio.run(run())

    def checkpoint(self) -> str:
        """Return the text of the stack's state file."""
        (path,) = (self.state / ".pulumi" / "stacks").rglob(f"{self.stack}.json")
        return path.read_text()


def figures(line: str) -> tuple[int, ...]:
    """Return the three numbers in the last line of `gpu-cluster up`.

    The numbers are the simulated GPUs, the declared GPUs and the changed resources.
    """
    match = LAST.fullmatch(line)
    assert match, line
    return tuple(int(number) for number in match.groups())


@contextmanager
def started(project: Project) -> Iterator[Project]:
    """Run a project's embedded cluster and hosts while the context lasts.

    Then remove everything.
    """
    try:
        done = project.command("start")
        assert done.returncode == 0, done.stdout
        yield project
    finally:
        erase(project.stack)


def _children(parent: int, name: str) -> list[int]:
    """Return the child processes of a process that run this program.

    Wait up to 10 s for the first.
    """
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        children = [
            int(path.parent.name)
            for path in Path("/proc").glob("[0-9]*/stat")
            if _is_child(path, parent, name)
        ]
        if children:
            return children
    return []


def _is_child(path: Path, parent: int, name: str) -> bool:
    try:
        text = path.read_text()
    except OSError:
        return False
    program, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :]
    return program == name and int(rest.split()[1]) == parent
