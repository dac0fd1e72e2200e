"""The documentation page about attacks lists all attack tests, and no test that doesn't exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ATTACKS = ROOT / "tests" / "proofs" / "attacks"


def test_each_attack_names_its_tests_and_no_test_is_left_out() -> None:
    text = (ROOT / "docs" / "explanation" / "attacks.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert all(row.split("|")[2].strip() for row in rows)
    names = re.findall(r"`([\w/]+\.py)`", " ".join(row.split("|")[2] for row in rows))
    missing = [
        name for name in names if not (ROOT / name).is_file() and not (ATTACKS / name).is_file()
    ]
    assert missing == []
    own = Path(__file__).name
    assert {path.name for path in ATTACKS.glob("test_*.py")} - {own} <= set(names)
