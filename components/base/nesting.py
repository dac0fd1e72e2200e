"""YAML of others: libyaml's loader follows nesting until its stack ends, and the process."""

from __future__ import annotations

from typing import Any, Final

import yaml

#: Levels; Kubernetes' own definitions have some 40.
DEPTH: Final = 200
#: libyaml's reads a chart's objects in a tenth of the time, where PyYAML came with it.
LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def bound_depth(text: str | bytes) -> None:
    """Refuses what no loader should read.

    Raises:
        ValueError: values nested more than `DEPTH` levels deep.
        yaml.YAMLError: no YAML.
    """
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH:
            raise ValueError(f"values nested more than {DEPTH} levels deep")
