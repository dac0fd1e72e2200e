"""Repair the files of a local backend that a full disk or a killed write left cut or empty.

The engine writes each file under another name and renames it. If the disk is full, it renames the
part that it could write (gocloud.dev v0.46.0, blob/blob.go, WriteAll; blob/fileblob/fileblob.go,
writer.Close), and each later command fails with ``unexpected end of JSON input``. A writer that
could not write ends with an error, so a cut file belongs to no run.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.commands.lock import locks_of
from gpu_cluster.commands.project import PROJECT
from gpu_cluster.hosts.prepared import typed_name
from gpu_rules.faults import Fault, FaultError
from gpu_rules.printable import printable

VERSION = "version: 1\n"
"""Content of ``meta.yaml`` in a backend whose stacks belong to projects.

Source: pulumi v3.274.1, pkg/backend/diy/meta.go.
"""
UNFINISHED = ".tmp"
"""Suffix of a file that is written but not renamed yet. A full disk leaves such files, too."""
WRITING = 5
"""Seconds to wait for another run that is about to rename its lock."""
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
"""First bytes of compressed files, which the engine writes if a user asks for it."""


def backend_folder(url: str) -> Path | None:
    """Return the folder ``.pulumi`` of a local backend; None if the state is stored elsewhere."""
    if not url.startswith("file://"):
        return None
    path = url.removeprefix("file://").partition("?")[0]
    return Path(path).expanduser() / ".pulumi"


def recorded_names(backend: Path, stack: str) -> frozenset[str]:
    """Return the type and name (`type::name`) of each resource in the state of a stack.

    The result is empty if the stack has no state, or one that is cut. The engine is not needed.
    """
    return frozenset(typed_name(resource["urn"]) for resource in recorded_resources(backend, stack))


def recorded_resources(backend: Path, stack: str) -> list[dict[str, Any]]:
    """Return the resources in the state of a stack, as `recorded_names` reads it."""
    for state in _state_files(backend, stack):
        with suppress(EOFError, OSError, ValueError, RecursionError):
            content = state.read_bytes()
            text = gzip.decompress(content) if content.startswith(_GZIP) else content
            latest = (json.loads(text).get("checkpoint") or {}).get("latest") or {}
            return list(latest.get("resources") or ())
    return []


def _state_files(backend: Path, stack: str) -> list[Path]:
    """Return the files that may hold the state of a stack."""
    return [backend / "stacks" / PROJECT / f"{stack}.json{end}" for end in ("", ".gz")]


def heal(backend: Path, home: Path, stack: str) -> Iterator[str]:
    """Repair the files of a local backend; yield a line about each repaired file.

    Args:
        backend: The backend's folder ``.pulumi``.
        home: The engine's folder, ``PULUMI_HOME``.

    Raises:
        FaultError: The stack's state is cut, and so are all its copies.
    """
    yield from _restore_version(backend)
    states = backend / "stacks"
    attributes = backend.glob("**/*.attrs")
    tags = [states / PROJECT / f"{stack}.pulumi-tags"]
    history = (backend / "history" / PROJECT / stack).glob("*.history.json*")
    for path in (*attributes, *tags, *history, *(home / "workspaces").glob("*.json")):
        if path.is_file() and not is_readable(path):
            yield _remove_cut_file(path)
    for path in locks_of(backend, stack):
        if path.suffix == UNFINISHED:
            _await_write(path)
        if not is_readable(path):
            yield _remove_cut_file(path)
    if not locks_of(backend, stack):
        yield from _restore_state(backend, stack)


def is_readable(path: Path) -> bool:
    """Check that a file contains a JSON document, and not only the beginning of one."""
    try:
        content = path.read_bytes()
        if content.startswith(_ZSTD):
            return True
        json.loads(gzip.decompress(content) if content.startswith(_GZIP) else content)
    except (EOFError, OSError, ValueError, RecursionError):
        return not path.exists()
    return True


def _await_write(path: Path) -> None:
    """Wait until another run has written its lock, or does not write it."""
    end = time.monotonic() + WRITING
    while not is_readable(path) and time.monotonic() < end:
        time.sleep(0.1)


def _remove_cut_file(path: Path) -> str:
    path.unlink(missing_ok=True)
    return f"A write that failed left {printable(str(path))} cut or empty: it is removed."


def _restore_version(backend: Path) -> Iterator[str]:
    """Write the backend's version again if its file is cut and the backend has no older layout."""
    path = backend / "meta.yaml"
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    except (OSError, ValueError, yaml.YAMLError):
        content = None
    if isinstance(content, dict) and isinstance(content.get("version"), int):
        return
    if not any((backend / "stacks").glob("*.json*")):
        _replace(path, VERSION.encode())
        yield f"A write that failed left {printable(str(path))} cut or empty: it is written again."


def _restore_state(backend: Path, stack: str) -> Iterator[str]:
    """Replace a state that is cut by its newest copy.

    The engine copies the state before each write, and keeps one for each run (pulumi v3.274.1,
    pkg/backend/diy/state.go, backupTarget, backupStack and addToHistory).
    """
    for state in _state_files(backend, stack):
        if not state.is_file() or is_readable(state):
            continue
        folders = [backend / name / PROJECT / stack for name in ("history", "backups")]
        older = [
            path
            for folder, pattern in zip(folders, ("*.checkpoint.json*", "*.json*"), strict=True)
            for path in folder.glob(pattern)
        ]
        copies = [
            state.with_name(f"{state.name}.bak"),
            *sorted(older, key=_modified_at, reverse=True),
        ]
        copy = next((path for path in copies if path.is_file() and is_readable(path)), None)
        if copy is None:
            raise FaultError(
                Fault(
                    f"state of stack {stack}: {state}",
                    f"{state.stat().st_size} bytes that are no JSON document, as a full disk "
                    "leaves them, and no copy that can be read",
                    "the state",
                    "restore the file from a backup of your own; without one, move it away and "
                    "run `gpu-cluster up`, which takes over what exists",
                )
            )
        moment = datetime.fromtimestamp(copy.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M UTC")
        broken = state.with_name(f"{state.name}.unreadable")
        shutil.copy2(state, broken)
        _replace(state, copy.read_bytes())
        yield (
            f"A write that failed left the state {printable(str(state))} cut or empty: it is "
            f"restored from {printable(copy.name)} of {moment}; the cut file is {broken.name}. "
            "`gpu-cluster up` takes over what was created since then."
        )


def _modified_at(path: Path) -> float:
    return path.stat().st_mtime


def _replace(path: Path, content: bytes) -> None:
    """Replace a file's content as a whole, so that a full disk changes nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
