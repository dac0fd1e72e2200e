"""Reads which contexts a user's kubeconfig has; no credentials, no connection."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from components.base.nesting import LOADER, bound_depth
from policies.faults import Fault
from policies.printable import printable

NAMED = 10
"""Contexts that one message names; the others are counted."""


def kubeconfig_files() -> list[Path]:
    """Return the kubeconfig files that clients read: ``KUBECONFIG``, or ``~/.kube/config``.

    Source: Kubernetes documentation, "Organizing Cluster Access Using kubeconfig Files".
    """
    listed = os.environ.get("KUBECONFIG", "")
    names = [name for name in listed.split(os.pathsep) if name]
    return [Path(name).expanduser() for name in names or ["~/.kube/config"]]


def contexts(files: list[Path]) -> list[str]:
    """Return the names of the contexts in files; a file that can't be read has none."""
    names: list[str] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
            bound_depth(text)
            content = yaml.load(text, Loader=LOADER)  # noqa: S506 - a safe loader
        except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError):
            continue
        listed = content.get("contexts") if isinstance(content, dict) else None
        for item in listed if isinstance(listed, list) else []:
            if isinstance(item, dict) and isinstance(item.get("name"), str):
                names.append(item["name"])
    return list(dict.fromkeys(names))


def missing_context(context: str, stack_file: str = "the stack file") -> Fault | None:
    """Return the fault of a context that no kubeconfig has; None if one has it.

    Args:
        context: `kubernetes.context` of the stack.
        stack_file: name of the file that declares it.
    """
    files = kubeconfig_files()
    names = contexts(files)
    if context in names:
        return None
    where = ", ".join(map(str, files))
    shown = ", ".join(printable(name, 80) for name in names[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    has = f"has {shown}{more}" if names else "has none, or can't be read"
    return Fault(
        f"kubernetes.context of {stack_file}",
        f"{context}, which is not in the kubeconfig {where}",
        f"one of its contexts; it {has}",
        "correct kubernetes.context, or set KUBECONFIG to the file that has this context",
    )
