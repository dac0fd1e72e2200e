"""Program of `make stack-schema`: write the schema of stack files, and the page of all settings."""

from __future__ import annotations

from commands.files import ROOT
from components.loading.reference import page
from components.loading.stack_schema import stack_schema

SCHEMA = ROOT / "docs" / "stack.schema.json"
SETTINGS = ROOT / "docs" / "reference" / "settings.md"


def main() -> None:
    """Write both files."""
    SCHEMA.write_text(stack_schema(), encoding="utf-8")
    SETTINGS.parent.mkdir(exist_ok=True)
    SETTINGS.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
