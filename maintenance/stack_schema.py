"""Program of `make stack-schema`: write the schema of stack files, and the page of all settings."""

from __future__ import annotations

from gpu_cluster.commands.files import ROOT
from maintenance.cluster_schema import stack_schema
from maintenance.settings_page import page

SCHEMA = ROOT / "docs" / "stack.schema.json"
SETTINGS = ROOT / "docs" / "reference" / "settings.md"


def main() -> None:
    """Write the schema of stack files and the page of all settings."""
    SCHEMA.write_text(stack_schema(), encoding="utf-8")
    SETTINGS.parent.mkdir(exist_ok=True)
    SETTINGS.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
