"""Read the structured key `gpu-cluster:cluster` of a Pulumi stack file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_cluster.base.confidential import in_plain_text
from gpu_cluster.loading.loader import load
from gpu_cluster.settings.cluster import Cluster
from gpu_rules.faults import ConfigError, InputError, fault, show

KEY = "gpu-cluster:cluster"


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
    settings = _settings(document.value, path)
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


def _settings(document: Any, path: Path) -> Mapping[str, Any]:
    settings = document.get("config") if isinstance(document, Mapping) else None
    if not isinstance(settings, Mapping):
        raise ConfigError(
            [
                fault(
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
                fault(
                    ("config", KEY),
                    "nothing",
                    "a mapping with version, kubernetes, pools and platform",
                    "start from Pulumi.dev.yaml",
                )
            ],
            path.name,
        )
    return settings
