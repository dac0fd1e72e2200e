"""Edits of a stack file in its own words: which settings differ from those of the last run.

The state keeps the settings of the last run that succeeded, with a digest in place of each secret.
Pure functions.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from gpu_cluster.change.document import SettingEdit
from gpu_cluster.settings.nodes.pool import GPU_LABELS
from gpu_cluster.settings.nodes.taint import GPU_TAINT
from gpu_rules.faults import PartError
from gpu_rules.printable import printable

LONGEST = 300
"""Maximum number of characters of a value; a longer value is shortened."""
DIGITS = 8
"""Hexadecimal digits shown of a secret's SHA-256."""
NAMES = ("name", "namespace", "key")
"""Keys whose values name the items of a list, in this order."""
_DIGEST = re.compile(r"(a secret), digest [0-9a-f]{8}")
_OF_POOL = re.compile(r"pools\[(?P<pool>[^\]]+)\]\.(?P<setting>labels|taints)")
DEFAULTS: Mapping[str, Any] = {"labels": dict(GPU_LABELS), "taints": [str(GPU_TAINT.node_taint)]}
"""Labels and taints of a pool with GPUs that declares none."""
_ABSENT = object()

Settings = Mapping[str, Any]


def recorded_settings(settings: Settings, *, has_secrets: bool = False) -> str:
    """Return settings as the text that the state keeps: JSON with a digest for each secret.

    Args:
        settings: Content of `gpu-cluster:cluster`.
        has_secrets: Whether values in `extraValues` may be secrets in plain text.
    """
    return json.dumps(_without_secrets(settings, hides=False, below=has_secrets), default=str)


def without_digests(text: str) -> str:
    """Return the text of recorded settings without digests of secrets, for a copy of the state."""
    return _DIGEST.sub(r"\1", text)


def edits(recorded: str, settings: Settings) -> tuple[SettingEdit, ...]:
    """Return the settings that differ from those of the last run, in the order of their paths.

    Args:
        recorded: Text from `recorded_settings`, which the last run wrote to the state.
        settings: Content of `gpu-cluster:cluster` now.

    Raises:
        ValueError: The text is not one that `recorded_settings` wrote.
    """
    was, now = json.loads(recorded), json.loads(recorded_settings(settings))
    if not isinstance(was, dict):
        raise PartError("no mapping of settings")
    pools = _items(now.get("pools")) or {}
    return tuple(
        SettingEdit(
            path=printable(path, LONGEST),
            was=_text(before),
            now=_text(after),
            default=_default(path, pools) if _ABSENT in (before, after) else "",
        )
        for path, before, after in _differences("", was, now)
    )


def _default(path: str, pools: Mapping[str, Settings]) -> str:
    """Return the default of a pool's labels or taints; empty for other settings.

    Args:
        path: Path of a setting.
        pools: Pools by name.
    """
    of_pool = _OF_POOL.fullmatch(path)
    pool = pools.get(of_pool["pool"]) if of_pool else None
    return _text(DEFAULTS[of_pool["setting"]]) if of_pool and pool and _has_gpus(pool) else ""


def _has_gpus(pool: Settings) -> bool:
    """Return whether a pool has GPUs, by which it has default labels and taints."""
    return pool.get("gpusPerNode") != 0


def _without_secrets(value: Any, *, hides: bool, below: bool) -> Any:
    """Return a value without secrets.

    Args:
        hides: Whether each text and number of the value may be a secret.
        below: Whether values below `extraValues` may be secrets.
    """
    if isinstance(value, Mapping):
        if set(value) == {"secure"}:
            return _secret(value["secure"])
        return {
            str(key): _without_secrets(item, hides=hides or (below and key == "extraValues"),
                                       below=below)
            for key, item in value.items()
        }  # fmt: skip
    if isinstance(value, list | tuple):
        return [_without_secrets(item, hides=hides, below=below) for item in value]
    return _secret(value) if hides and value not in (None, True, False) else value


def _secret(value: object) -> str:
    return f"a secret, digest {hashlib.sha256(str(value).encode()).hexdigest()[:DIGITS]}"


def _differences(path: str, was: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the path and both values of each difference, as deep in the settings as possible."""
    if was == now or _is_same_secret(was, now):
        return
    before, after = _items(was), _items(now)
    if before is None or after is None:
        yield path, was, now
        return
    is_list = isinstance(was, list)
    for key in dict.fromkeys((*before, *after)):
        below = f"{path}[{key}]" if is_list else f"{path}.{key}" if path else key
        yield from _differences(below, before.get(key, _ABSENT), after.get(key, _ABSENT))


def _is_same_secret(was: Any, now: Any) -> bool:
    """Return whether two values are secrets that a copy of the state can't tell apart."""
    if not isinstance(was, str) or not isinstance(now, str):
        return False
    plain = [without_digests(was), without_digests(now)]
    return plain[0] == plain[1] and bool({was, now} & {*plain})


def _items(value: Any) -> dict[str, Any] | None:
    """Return the items of a mapping, or those of a list by their names; None for other values."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, list) or not value:
        return None
    for name in NAMES:
        keys = [item.get(name) if isinstance(item, dict) else None for item in value]
        if all(isinstance(key, str) for key in keys) and len({*keys}) == len(keys):
            return dict(zip(map(str, keys), value, strict=True))
    return None


def _text(value: Any) -> str:
    """Return a value as a stack file writes it in one line; empty if there is none."""
    if value is _ABSENT:
        return ""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6,
                          allow_unicode=True)  # fmt: skip
    return printable(text.removesuffix("...\n").strip(), LONGEST)
