"""The messages of all table-driven tests, recorded in `messages.json`.

`python -m tests.policies.rules.messages` writes the file again. Its diff shows what users will
read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_rules.faults import worded
from gpu_rules.rules import Context, Violation, evaluate, evaluate_stack

FILE = Path(__file__).with_name("messages.json")
TESTS = [
    path.stem
    for path in sorted(FILE.parent.glob("test_*.py"))
    if "policies.rules.messages import" in path.read_text()
]
"""The tests that judge manifests by `judge` and `judge_stack`."""

_written = {rule: frozenset(texts) for rule, texts in json.loads(FILE.read_text()).items()}
_recorded: dict[str, set[str]] | None = None


def judge(manifest: Any, context: Context, **options: Any) -> list[Violation]:
    """Return the rule violations of a manifest, and check that each message is recorded."""
    return _known(evaluate(manifest, context, **options))


def judge_stack(manifests: Iterable[Mapping[str, Any]], context: Context) -> list[Violation]:
    """Return the violations of all manifests of a stack together, and check their messages."""
    return _known(evaluate_stack(manifests, context))


def _known(found: list[Violation]) -> list[Violation]:
    for violation in found:
        where = (
            f"container {violation.container}: {violation.path}"
            if violation.container
            else violation.path
        )
        text = f"{where}: {worded(violation.found, violation.wanted, violation.cure)}"
        if _recorded is not None:
            _recorded.setdefault(violation.rule.id, set()).add(text)
        else:
            written = _written.get(violation.rule.id, frozenset())
            assert text in written, "a message that messages.json does not have: see its module"
    return found


def main() -> None:
    global _recorded
    _recorded = {}
    code = pytest.main(["-q", *(str(FILE.with_name(f"{name}.py")) for name in TESTS)])
    if code:
        raise SystemExit(code)
    content = {rule: sorted(texts) for rule, texts in sorted(_recorded.items())}
    FILE.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    from tests.policies.rules import messages

    messages.main()
