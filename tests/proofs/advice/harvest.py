"""Plugin of pytest that writes each stack file with faults that tests load to a file.

`pytest -p tests.proofs.advice.harvest` writes to the file that the variable `ADVICE_HARVEST` names.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from gpu_rules.faults import ConfigError

FILE = "ADVICE_HARVEST"
LONGEST = 20_000
"""Maximum number of characters of a document; longer ones are generated."""
_seen: dict[str, None] = {}
_original = ConfigError.__init__


def _init(self: ConfigError, *args: Any, **named: Any) -> None:
    _original(self, *args, **named)
    frame = sys._getframe(1)
    if frame.f_code.co_name == "load" and isinstance(
        document := frame.f_locals.get("document"), dict
    ):
        try:
            text = json.dumps(document, sort_keys=True)
        except (TypeError, ValueError, RecursionError):
            return
        if len(text) < LONGEST and json.loads(text) == document:
            _seen[text] = None


def pytest_configure() -> None:
    ConfigError.__init__ = _init  # type: ignore[method-assign]


def pytest_unconfigure(config: pytest.Config) -> None:
    del config
    if name := os.environ.get(FILE):
        Path(name).write_text("\n".join(_seen), encoding="utf-8")
