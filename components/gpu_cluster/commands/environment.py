"""The environment variables of every command: toolchain on PATH, state and passphrase in the cache.

``eval "$(gpu-cluster env)"`` sets the same variables in a shell, so that plain ``pulumi`` works
there. Variables that the user has already set (backend, passphrase, kubeconfig, SSH key, charts)
are kept.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from gpu_cluster.commands.engine_home import engine_home
from gpu_cluster.commands.lab import embedded_cluster
from gpu_cluster.commands.output import apart
from gpu_cluster.commands.project import ROOT
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.tools import TOOLS, ensure
from gpu_cluster.machine import processes
from gpu_cluster.machine.folders import cache_dir, make_private
from gpu_cluster.machine.proxies import PROXY_VARIABLES
from gpu_cluster.settings.hosts.proxy import LOOPBACK

# Seconds after which a temporary file is regarded as left over from a killed run.
LEFT_AFTER = 3600

# The engine's default for parallel operations is this number times the number of processors (pulumi
# v3.250.0, pkg/cmd/pulumi/operations/up.go).
FOR_EACH_PROCESSOR = 4

# Parallel operations that are allowed in addition to one for each host.
BESIDE_HOSTS = 8

# Upper limit of parallel operations, and so of SSH logins from one machine at the same time.
MOST_AT_ONCE = 256

EMBEDDED_STATE, STATE = "embedded/state", "state"
"""Folders of the local backends in the cache: of stacks on embedded clusters, and of others."""
NO_PROXY = ("no_proxy", "NO_PROXY")
USER_PATH = os.environ.get("PATH", os.defpath)
"""Value of PATH before this process adds its own folders."""


def _passphrase_file() -> Path:
    """Return the file with the passphrase of embedded stacks; create it if it is missing.

    Only the file's owner can read it.
    """
    path = cache_dir() / "passphrase"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(32))
    return path


def _scratch_folder(stack: Stack) -> Path:
    """Return the private folder for a stack's temporary files; delete files of killed runs."""
    make_private(stack.scratch)
    old = [
        file
        for file in stack.scratch.iterdir()
        if file.is_file() and time.time() - file.stat().st_mtime > LEFT_AFTER
    ]
    # If the system clock was set forward, the files of a current run seem old. So files are only
    # deleted while no process uses the folder as its TMPDIR.
    if old and not processes.marked(stack.scratch, "TMPDIR"):
        for file in old:
            file.unlink(missing_ok=True)
    return stack.scratch


def local_backend(folder: Path) -> str:
    """Return the URL of a local backend that stays usable if a command is killed during a write.

    By default the backend keeps an attribute file next to each file and does not write it
    atomically. A kill can leave it empty, and then every later command fails with ``failed to load
    checkpoint: EOF`` (gocloud.dev v0.46.0, blob/fileblob/attrs.go). ``metadata=skip`` turns these
    files off. The state file itself is renamed into place.
    """
    return f"file://{folder}?metadata=skip"


def state_folder(stack: Stack) -> Path:
    """Return the folder of the local backend that is used if the user names no backend."""
    return cache_dir() / (EMBEDDED_STATE if stack.embedded else STATE)


def local_states() -> list[str]:
    """Return the URLs of the local backends that are used if the user names no backend."""
    return [local_backend(cache_dir() / folder) for folder in (EMBEDDED_STATE, STATE)]


def at_once(hosts: int) -> int:
    """Return how many operations the engine runs in parallel, for a number of declared hosts.

    All hosts install their packages at the same time, even if the engine runs on a machine with few
    processors, because the engine mostly waits.
    """
    by_processors = FOR_EACH_PROCESSOR * (os.cpu_count() or 1)
    return max(by_processors, min(hosts + BESIDE_HOSTS, MOST_AT_ONCE))


def unproxied(environment: Mapping[str, str]) -> dict[str, str]:
    """Return ``NO_PROXY`` in both spellings with loopback added; an empty mapping without a proxy.

    The engine and its plugins talk to each other over loopback, and so do the clients of the
    embedded cluster. Go never uses a proxy for loopback; gRPC for Python, urllib and httpx do
    unless ``NO_PROXY`` lists it.
    """
    if not any(environment.get(name) for name in PROXY_VARIABLES):
        return {}
    listed = ",".join(filter(None, (environment.get(name) for name in NO_PROXY)))
    names = dict.fromkeys(name.strip() for name in listed.split(",") if name.strip())
    value = "*" if "*" in names else ",".join(dict.fromkeys([*names, *LOOPBACK]))
    return dict.fromkeys(NO_PROXY, value)


def variables(stack: Stack) -> dict[str, str]:
    """Return the environment variables that a stack's commands need but the user has not set.

    The local backend is used if the user names no backend. The passphrase file in the cache is only
    used for stacks on an embedded cluster.
    """
    tools = ensure(*TOOLS)
    folders = [str(Path(sys.prefix) / "bin")]
    folders += dict.fromkeys(str(tool.path.parent) for tool in tools.values())
    result = {
        "PATH": os.pathsep.join([*folders, os.environ.get("PATH", "")]),
        "GPU_CLUSTER_HOME": str(ROOT),
        # The launch scripts of the toolchain's own plugins read this variable.
        "GPU_CLUSTER_PYTHON": sys.executable,
        "PULUMI_HOME": str(engine_home(cache_dir())),
        # Plain pulumi uses this stack, whichever stack was selected last.
        "PULUMI_STACK": stack.name,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # Python programs need UTF-8 and no warnings, whatever locale and warning filters the shell
        # has.
        "PYTHONUTF8": "1",
        "PYTHONWARNINGS": "",
        **unproxied(os.environ),
        "TMPDIR": str(_scratch_folder(stack)),
    }
    if "PULUMI_PARALLEL" not in os.environ:
        result["PULUMI_PARALLEL"] = str(at_once(len(stack.cluster.hosts)))
    if "PULUMI_BACKEND_URL" not in os.environ:
        make_private(state_folder(stack))
        result["PULUMI_BACKEND_URL"] = local_backend(state_folder(stack))
    if cluster := embedded_cluster(stack):
        result |= cluster.variables()
        if not {"PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"} & os.environ.keys():
            result["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(_passphrase_file())
    return result


def main() -> None:
    """Print the environment variables as shell exports, or as data."""
    exported = variables(Stack.current())
    with apart() as output:
        if output:
            json.dump(exported, output, indent=2)
            output.write("\n")
    if not output:
        for name, value in exported.items():
            print(f"export {name}={shlex.quote(value)}")
