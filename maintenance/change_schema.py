"""Program of `make change-schema`: write the JSON schema of change documents."""

from __future__ import annotations

from commands.files import ROOT
from components.change.document import schema

SCHEMA = ROOT / "docs" / "change.schema.json"


def main() -> None:
    """Write the schema."""
    SCHEMA.write_text(schema(), encoding="utf-8")


if __name__ == "__main__":
    main()
