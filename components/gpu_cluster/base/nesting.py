"""Limit the nesting of untrusted YAML; libyaml's recursive loader would overflow its stack."""

from __future__ import annotations

from typing import Any, Final

import yaml

from gpu_rules.faults import PartError

# Maximum number of levels; Kubernetes' own CustomResourceDefinitions have about 40.
DEPTH: Final = 200
# The C loader is about ten times faster, but not every PyYAML installation includes it.
LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def bound_depth(text: str | bytes) -> None:
    """Check that a YAML text is not nested too deeply.

    Raises:
        ValueError: Values are nested more than `DEPTH` levels deep.
        yaml.YAMLError: The text is no valid YAML.
    """
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH:
            raise PartError(f"values nested more than {DEPTH} levels deep")
