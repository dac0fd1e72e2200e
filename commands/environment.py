"""The environment of every command: toolchain on PATH, state and passphrase in the cache.

``eval "$(make env)"`` gives it to a shell, so that plain ``pulumi`` works there. What the user has
set already (backend, passphrase, kubeconfig, key, charts) stays.
"""

from __future__ import annotations

import os
import secrets
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import toolchain
from commands.stack import Stack
from components.workarounds import engine_home
from lab.simulator import processes
from lab.simulator.proxies import VARIABLES

ROOT = Path(__file__).resolve().parent.parent

#: Seconds after which a temporary file belongs to no run any more.
LEFT_AFTER = 3600

#: The engine's own number of operations at once is this for each processor (pulumi v3.250.0,
#: pkg/cmd/pulumi/operations/up.go).
FOR_EACH_PROCESSOR = 4

#: Operations beside those on hosts.
BESIDE_HOSTS = 8

#: At most so many log-ins from one machine at once.
MOST_AT_ONCE = 256

NO_PROXY = ("no_proxy", "NO_PROXY")
LOOPBACK = ("localhost", "127.0.0.1", "::1")

TOOLS = (
    "pulumi",
    "pulumi-language-python",
    "pulumi-resource-kubernetes",
    "pulumi-resource-command",
)


def _passphrase_file() -> Path:
    """The passphrase of embedded stacks, made once, readable by its owner only."""
    path = toolchain.cache_dir() / "passphrase"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(32))
    return path


def make_private(folder: Path) -> None:
    """Makes a folder that only its owner may read: state and temporary files tell of clusters."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def _scratch(stack: Stack) -> Path:
    """Temporary files of a stack's runs, for its owner only; what killed ones left is removed."""
    make_private(stack.scratch)
    old = [
        left
        for left in stack.scratch.iterdir()
        if left.is_file() and time.time() - left.stat().st_mtime > LEFT_AFTER
    ]
    # A clock that was set makes the files of a run seem old while it lasts.
    if old and not processes.marked(stack.scratch, "TMPDIR"):
        for left in old:
            left.unlink(missing_ok=True)
    return stack.scratch


def local_backend(folder: Path) -> str:
    """URL of a local backend that a kill in the middle of a write can't break.

    By default the backend keeps attributes beside each file and writes them in place: a kill then
    leaves an empty one, and every later command ends with ``failed to load checkpoint: EOF``
    (gocloud.dev v0.46.0, blob/fileblob/attrs.go). The state itself is renamed into place.
    """
    return f"file://{folder}?metadata=skip"


def at_once(hosts: int) -> int:
    """How many operations the engine runs at once where so many hosts are declared.

    All hosts install their packages at the same time, also when the engine runs on a machine of
    few processors: its work is waiting.
    """
    own = FOR_EACH_PROCESSOR * (os.cpu_count() or 1)
    return max(own, min(hosts + BESIDE_HOSTS, MOST_AT_ONCE))


def unproxied(environment: Mapping[str, str]) -> dict[str, str]:
    """Return ``NO_PROXY`` in both spellings, with loopback added; nothing without a proxy.

    The engine and its plugins talk to each other over loopback, and so does everything with the
    embedded cluster. Go leaves loopback out by itself; gRPC for Python, urllib and httpx do not.
    """
    if not any(environment.get(name) for name in VARIABLES):
        return {}
    listed = ",".join(filter(None, (environment.get(name) for name in NO_PROXY)))
    names = dict.fromkeys(name.strip() for name in listed.split(",") if name.strip())
    value = "*" if "*" in names else ",".join(dict.fromkeys([*names, *LOOPBACK]))
    return dict.fromkeys(NO_PROXY, value)


def variables(stack: Stack) -> dict[str, str]:
    """What a stack's commands need in their environment beyond what is set already.

    The local backend serves where no other is named, the passphrase of the cache only the stacks
    of the embedded cluster.
    """
    tools = toolchain.ensure(*TOOLS)
    cache = toolchain.cache_dir()
    folders = [str(Path(sys.prefix) / "bin")]
    folders += dict.fromkeys(str(tool.path.parent) for tool in tools.values())
    result = {
        "PATH": os.pathsep.join([*folders, os.environ.get("PATH", "")]),
        "GPU_CLUSTER_HOME": str(ROOT),
        "PULUMI_HOME": str(engine_home(toolchain.cache_dir())),
        # Plain pulumi then means this stack, whichever was selected last.
        "PULUMI_STACK": stack.name,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # Programs of this project and their libraries in a shell with any locale and warnings.
        "PYTHONUTF8": "1",
        "PYTHONWARNINGS": "",
        **unproxied(os.environ),
        "TMPDIR": str(_scratch(stack)),
    }
    if "PULUMI_PARALLEL" not in os.environ:
        result["PULUMI_PARALLEL"] = str(at_once(len(stack.cluster.hosts)))
    if "PULUMI_BACKEND_URL" not in os.environ:
        state = cache / ("embedded/state" if stack.embedded else "state")
        make_private(state)
        result["PULUMI_BACKEND_URL"] = local_backend(state)
    if stack.embedded:
        if not {"PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"} & os.environ.keys():
            result["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(_passphrase_file())
        result |= stack.embedded_variables()
    return result


def main() -> None:
    """Prints the environment as shell exports."""
    for name, value in variables(Stack.current()).items():
        print(f"export {name}={shlex.quote(value)}")


if __name__ == "__main__":
    main()
