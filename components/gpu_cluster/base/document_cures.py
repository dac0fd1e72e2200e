"""Forms of the cures that edit a document: few, so that each can be followed by a test.

- `remove it`, and a reason after a colon
- `rename it to "KEY"`
- `move it to PATH`, a path of the stack file or of the chart's values
- `move what stands below it one level up`
- `add "KEY: VALUE"`
- `write VALUE` or `write "KEY: VALUE"`, in YAML
- `write PATH: VALUE and remove it here`
- `move its file "NAME" to PATH`, for files that are texts in a mapping

Alternatives follow after `, or`, explanations after a semicolon. `make test-advice` performs each
cure of these forms and loads the document again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

REMOVE = "remove it"
ONE_LEVEL_UP = "move what stands below it one level up"


def rename_to(key: str) -> str:
    """Return the cure of a misspelled key."""
    return f'rename it to "{key}"'


def move_to(*paths: str) -> str:
    """Return the cure of a value at a wrong place; `paths` are the right places."""
    return f"move it to {' or '.join(paths)}"


def is_umbrella(value: object, known_keys: Collection[str]) -> bool:
    """Return True if the value of an unknown key contains keys that belong one level up.

    An umbrella chart has the values of a chart below its name; a HelmRelease has them below
    `values`. More than half of the keys below must be known.
    """
    if not isinstance(value, Mapping) or not value:
        return False
    return sum(key in known_keys for key in value) * 2 > len(value)
