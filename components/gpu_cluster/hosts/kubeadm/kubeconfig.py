"""Program that writes the context of a cluster created by the stack: actions `apply` and `undo`.

The program owns one context, with a cluster and a user, in the kubeconfig file that kubectl would
write to: the first file in `KUBECONFIG`, else `~/.kube/config`. It does not overwrite a context of
the same name that it did not write. When it removes the context and nothing else is in the file, it
deletes the file.
Input: a `KubeconfigRequest`. No other fields of a kubeconfig can be passed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.hosts.kubeadm.access import Administrator, check_key
from gpu_cluster.kubernetes.api import ClusterError, Json
from gpu_cluster.program import main
from gpu_rules.faults import Fault

OURS = "gpu-cluster/"
"""Prefix of the cluster's and the user's name; the context's name follows."""
LOCK_SECONDS = 20
"""Seconds to wait for another program that is changing the file."""
EMPTY: Json = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}


@dataclass(frozen=True, kw_only=True)
class KubeconfigRequest:
    """Context of a cluster that the stack creates.

    Attributes:
        context: Name of the context.
        administrator: Access to the cluster.
    """

    context: str
    administrator: Administrator


Change = Callable[[KubeconfigRequest], Coroutine[Any, Any, Json]]


def path() -> Path:
    """Return the file that kubectl writes to (k8s.io/client-go v0.34 tools/clientcmd/config.go)."""
    names = [name for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    return Path(names[0]) if names else Path.home() / ".kube" / "config"


def exclusive(change: Change) -> Change:
    """Return a function that changes the kubeconfig while it holds the file's lock.

    The lock is kubectl's: a file with the suffix `.lock` that must not exist (k8s.io/client-go
    v0.34 tools/clientcmd/loader.go, lockFile). If the file exists, kubectl fails, but this function
    waits.
    """

    async def locked(request: KubeconfigRequest) -> Json:
        lock = path().with_name(f"{path().name}.lock")
        await _take(lock)
        try:
            return await change(request)
        finally:
            lock.unlink(missing_ok=True)

    return locked


async def _take(lock: Path) -> None:
    lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0))
            return
        except FileExistsError:
            if time.monotonic() > end:
                raise ClusterError(
                    Fault(
                        str(lock),
                        f"another program's lock, for {LOCK_SECONDS} s",
                        "none",
                        "wait for kubectl to end; remove the file if none runs",
                    )
                ) from None
        await asyncio.sleep(0.1)


def is_there(context: str) -> bool:
    """Return whether a file of this machine's kubeconfig has the context."""
    names = os.environ.get("KUBECONFIG", "").split(os.pathsep)
    files = [Path(name) for name in names if name] or [path()]
    return any(_find_entry(_read_kubeconfig(file), "contexts", context) for file in files)


@exclusive
async def apply(request: KubeconfigRequest) -> Json:
    """Write the context.

    Raises:
        FaultError: The client key is not valid, a context of that name belongs to somebody else, or
            the file can't be read.
    """
    name, admin = request.context, request.administrator
    check_key(admin)
    file, ours = path(), OURS + name
    kubeconfig = _read_kubeconfig(file)
    present = _find_entry(kubeconfig, "contexts", name)
    if present and present["context"].get("cluster") != ours:
        raise ClusterError(
            Fault(
                f"{file}, context {name}",
                "a context that this stack didn't write",
                "none of that name",
                "declare another kubernetes.context, or rename that one",
            )
        )
    written = {**EMPTY, **kubeconfig, "current-context": kubeconfig.get("current-context") or name}
    entries = {
        "clusters": {"name": ours, "cluster": admin.cluster},
        "users": {"name": ours, "user": admin.user},
        "contexts": {"name": name, "context": {"cluster": ours, "user": ours}},
    }
    for kind, entry in entries.items():
        other_entries = [
            existing for existing in written[kind] or [] if existing["name"] != entry["name"]
        ]
        written[kind] = [*other_entries, entry]
    _write_kubeconfig(file, written)
    return {"context": name}


@exclusive
async def undo(request: KubeconfigRequest) -> Json:
    """Remove the context, and delete the kubeconfig file if nothing else is in it."""
    name, file = request.context, path()
    ours, kubeconfig = OURS + name, _read_kubeconfig(file)
    present = _find_entry(kubeconfig, "contexts", name)
    if not present or present["context"].get("cluster") != ours:
        return {}
    for kind, entry in (("clusters", ours), ("users", ours), ("contexts", name)):
        kubeconfig[kind] = [
            existing for existing in kubeconfig.get(kind) or [] if existing["name"] != entry
        ]
    if kubeconfig.get("current-context") == name:
        kubeconfig["current-context"] = ""
    # A symbolic link is the user's choice of a location, so it is kept.
    if file.is_symlink() or any(kubeconfig[kind] for kind in ("clusters", "users", "contexts")):
        _write_kubeconfig(file, kubeconfig)
    else:
        file.unlink()
    return {}


def _find_entry(document: Json, kind: str, name: str) -> dict[str, Any] | None:
    return next((entry for entry in document.get(kind) or [] if entry.get("name") == name), None)


def _read_kubeconfig(file: Path) -> Json:
    try:
        document = yaml.safe_load(file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ClusterError(
            Fault(str(file), f"no kubeconfig ({type(error).__name__})", "one", "correct the file")
        ) from None
    return document if isinstance(document, dict) else {}


def _write_kubeconfig(file: Path, document: Json) -> None:
    """Write the kubeconfig file atomically by a rename, following a symbolic link.

    Only the owner can read the file, because it contains a key.
    """
    target = file.resolve()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = target.with_name(f"{target.name}.gpu-cluster-new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        yaml.safe_dump(document, stream, sort_keys=False)
    draft.replace(target)


if __name__ == "__main__":
    main(KubeconfigRequest, {"apply": apply, "undo": undo})
