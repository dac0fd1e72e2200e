"""Read the structured key `gpu-cluster:cluster` of a Pulumi stack file."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_cluster.base.confidential import in_plain_text
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.cluster import Cluster
from gpu_rules.faults import ConfigError, Fault, InputError, Location, fault, show
from gpu_rules.printable import printable

if TYPE_CHECKING:
    from gpu_cluster.base.yaml_file import Document

KEY = "gpu-cluster:cluster"
NAMED = 8
"""Maximum number of keys that a message names."""


def load_stack_file(path: str | Path) -> Cluster:
    """Return the cluster that `Pulumi.<stack>.yaml` declares, without the Pulumi CLI.

    Raises:
        ConfigError: The file is missing or is no YAML, repeats a key, lacks
            `config: gpu-cluster:cluster`, contains a secret of this program in plain text, or
            declares an invalid cluster. The error has the file's name and the line of each fault.
    """
    # Only this function needs the YAML library, whose import takes time.
    from gpu_cluster.base import yaml_file

    path = Path(path)
    try:
        document = yaml_file.read(path)
    except InputError as error:
        raise ConfigError([fault((), error.found, error.wanted, error.cure)], path.name).located(
            path.name, {(): error.line} if error.line else {}
        ) from None
    settings = _read_config(document, path)
    secrets = ConfigError(in_plain_text(settings)).located(path.name, document.lines).faults
    prefix = ("config", KEY)
    lines = {at[2:]: line for at, line in document.lines.items() if at[:2] == prefix}
    try:
        cluster = load(settings[KEY])
    except ConfigError as error:
        problems = error.located(path.name, lines).faults
        raise ConfigError((*secrets, *problems), path.name) from None
    if secrets:
        raise ConfigError(secrets, path.name)
    return cluster


def _read_config(document: Document, path: Path) -> Mapping[str, Any]:
    value = document.value
    settings = value.get("config") if isinstance(value, Mapping) else None
    wanted = f"config, a mapping with the key {KEY}"
    problem = None
    if not isinstance(value, Mapping) or "config" not in value:
        problem = _missing_key_fault((), value, "config", wanted)
    elif not isinstance(settings, Mapping):
        cure = f"write {KEY} below config, and the settings of the cluster below {KEY}"
        problem = fault(("config",), show(settings), f"a mapping with the key {KEY}", cure)
    elif KEY not in settings:
        wanted = f"{KEY}, a mapping with version, kubernetes, pools and platform"
        problem = _missing_key_fault(("config",), settings, KEY, wanted)
    if problem is not None:
        raise ConfigError([problem], path.name).located(path.name, document.lines)
    return settings or {}


def _missing_key_fault(at: Location, value: Any, key: str, wanted: str) -> Fault:
    """Return the fault of a mapping without a key; a key of nearly this name is taken for it."""
    keys = [str(key_in_file) for key_in_file in value] if isinstance(value, Mapping) else []
    if near := difflib.get_close_matches(key, keys, 1):
        found = f"the key {printable(near[0])}"
        return fault((*at, near[0]), found, wanted, f"write {key} in its place")
    names = ", ".join(printable(other_key) for other_key in keys[:NAMED])
    found = f"the keys {names}" if keys else show(value) if value is not None else "nothing"
    return fault(at, found, wanted, f"write {key}; Pulumi.dev.yaml has an example")
