"""Pages of the reference that people write name everything that the code has."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r'"(gpu-cluster/[a-z][a-z-]*\.?)"')
# The name in the User-Agent of requests, which no object carries.
NO_OBJECT = {"gpu-cluster/program"}


def rows(page: str) -> set[str]:
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    return set(re.findall(r"^\| (`[^|]*`) \|", text, re.MULTILINE))


def test_each_label_annotation_and_taint_of_the_code_has_a_row() -> None:
    written = {
        name
        for folder in ("components", "policies")
        for path in (ROOT / folder).rglob("*.py")
        for name in NAME.findall(path.read_text(encoding="utf-8"))
    }
    listed = {
        name.removesuffix("POOL")
        for row in rows("labels.md")
        for name in re.findall(r"`([^`]+)`", row)
        if name.startswith("gpu-cluster/")
    }
    assert len(written) > 10
    assert written - NO_OBJECT == listed


def test_each_command_of_a_user_that_can_fail_has_its_exit_codes() -> None:
    listed = set(re.findall(r"commands\.([a-z_]+)", " ".join(rows("exit-codes.md"))))
    for name in listed:
        assert (ROOT / "commands" / f"{name}.py").is_file(), name
    exiting = {
        path.stem
        for path in (ROOT / "commands").glob("*.py")
        if "def main" in (text := path.read_text(encoding="utf-8")) and "sys.exit(" in text
    }
    helpers = {"lint_shell", "preview_secrets", "preview_state", "release", "secret_scan"}
    assert exiting - helpers <= listed
