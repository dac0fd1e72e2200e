"""Program of `make change-schema`: write the JSON schema of change documents."""

from __future__ import annotations

from gpu_cluster.change.document import schema
from gpu_cluster.commands.files import ROOT

SCHEMA = ROOT / "docs" / "change.schema.json"


def main() -> None:
    """Write the schema."""
    SCHEMA.write_text(schema(), encoding="utf-8")


if __name__ == "__main__":
    main()
