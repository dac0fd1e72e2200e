"""Find the kubeconfig in use and the names of its contexts, without credentials or a connection.

The kubeconfig is either the files that kubectl would use, or a text that replaces the files. A
`contextvars` variable holds the text, so that two clusters in one program, and hooks that run
later, each keep their own kubeconfig.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.base.nesting import LOADER, bound_depth
from gpu_rules.faults import Fault
from gpu_rules.printable import printable, shortened

_GIVEN: ContextVar[str | None] = ContextVar("kubeconfig", default=None)

NAMED = 10
"""Maximum number of contexts that a message names; the other contexts are only counted."""


@contextmanager
def given(kubeconfig: str | None) -> Iterator[None]:
    """Use a kubeconfig text inside the `with` block; None means the machine's own kubeconfig."""
    token = _GIVEN.set(kubeconfig)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def given_kubeconfig() -> dict[str, Any] | None:
    """Return the kubeconfig that replaces the machine's own, or None."""
    text = _GIVEN.get()
    return None if text is None else _read_content(text)


def kubeconfig_files() -> list[Path]:
    """Return the kubeconfig files that clients read: those in `KUBECONFIG`, or `~/.kube/config`.

    Source: Kubernetes documentation, "Organizing Cluster Access Using kubeconfig Files".
    """
    listed = os.environ.get("KUBECONFIG", "")
    names = [name for name in listed.split(os.pathsep) if name]
    return [Path(name).expanduser() for name in names or ["~/.kube/config"]]


def contexts(files: list[Path]) -> list[str]:
    """Return the names of the contexts in kubeconfig files; unreadable files are skipped."""
    names: list[str] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        names += _context_names(_read_content(text))
    return list(dict.fromkeys(names))


def _read_content(text: str) -> dict[str, Any]:
    """Return the content of a kubeconfig, or an empty mapping if the text is invalid."""
    try:
        bound_depth(text)
        content = yaml.load(text, Loader=LOADER)  # noqa: S506 - LOADER is a safe loader
    except (yaml.YAMLError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _context_names(content: dict[str, Any]) -> list[str]:
    listed = content.get("contexts")
    return [
        item["name"]
        for item in (listed if isinstance(listed, list) else [])
        if isinstance(item, dict) and isinstance(item.get("name"), str)
    ]


def missing_context(context: str, stack_file: str = "the stack file") -> Fault | None:
    """Return a fault if the kubeconfig in use lacks the context, else None.

    Args:
        context: Setting `kubernetes.context` of the stack.
        stack_file: Name of the file that sets it.
    """
    kubeconfig = given_kubeconfig()
    files = kubeconfig_files()
    names = contexts(files) if kubeconfig is None else _context_names(kubeconfig)
    if context in names:
        return None
    source = ", ".join(map(str, files)) if kubeconfig is None else "that was given"
    has = (
        f"has {shortened([printable(name, 80) for name in names], NAMED)}"
        if names
        else "has none, or can't be read"
    )
    return Fault(
        f"kubernetes.context of {stack_file}",
        f"{context}, which is not in the kubeconfig {source}",
        f"one of its contexts; it {has}",
        "correct kubernetes.context, or "
        + (
            "set KUBECONFIG to the file that has"
            if kubeconfig is None
            else "give the contents of one with"
        )
        + " this context",
    )
