"""Reads the structured key `gpu-cluster:cluster` of a Pulumi stack file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from config.cluster import Cluster
from config.load import load
from config.problem import ConfigError, problem, show

KEY = "gpu-cluster:cluster"


def load_stack_file(path: str | Path) -> Cluster:
    """The cluster that `Pulumi.<stack>.yaml` declares, read without the engine.

    Raises `ConfigError`, with the file's name and the line of each problem, also where the file
    is missing, is no YAML, repeats a key, or lacks `config: gpu-cluster:cluster`.
    """
    from config import yaml_file  # the YAML library is needed for files only

    path = Path(path)
    try:
        document = yaml_file.read(path)
    except yaml_file.YamlError as error:
        raise ConfigError([problem((), error.found, error.wanted, error.cure)], path.name).located(
            path.name, {(): error.line} if error.line else {}
        ) from None
    section = _section(document.value, path)
    try:
        return load(section)
    except ConfigError as error:
        prefix = ("config", KEY)
        lines = {
            location[len(prefix) :]: line
            for location, line in document.lines.items()
            if location[: len(prefix)] == prefix
        }
        raise error.located(path.name, lines) from None


def _section(document: Any, path: Path) -> Any:
    settings = document.get("config") if isinstance(document, Mapping) else None
    if not isinstance(settings, Mapping):
        raise ConfigError(
            [
                problem(
                    ("config",),
                    show(settings) if settings is not None else "nothing",
                    f"a mapping with the key {KEY}",
                    "start from Pulumi.dev.yaml",
                )
            ],
            path.name,
        )
    if KEY not in settings:
        raise ConfigError(
            [
                problem(
                    ("config", KEY),
                    "nothing",
                    "a mapping with version, kubernetes, pools and platform",
                    "start from Pulumi.dev.yaml",
                )
            ],
            path.name,
        )
    return settings[KEY]
