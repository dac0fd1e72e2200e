"""``make facts CSAF=<folder>``: write the tables of `policies/facts/` from their sources."""

from __future__ import annotations

import json
import os
import sys
from datetime import date
from pathlib import Path

from components.charts.images import sections
from components.settings.support import PAGE, overdue, page
from policies.facts import csaf, floors, parts
from policies.faults import Fault
from toolchain.pins import CONTAINERD, KUBERNETES_MODULES

ROOT = Path(__file__).resolve().parents[1]
PROVED = {
    "kubernetes": tuple(KUBERNETES_MODULES),
    "containerd": ("1.6.20 (Debian 12's)", *CONTAINERD),
    "debian": ("12",),
}
"""The versions that proofs run with, by part."""


def documents(folder: Path) -> dict[str, str]:
    """Return the texts of a folder's CSAF documents, by name.

    Raises:
        OSError, ValueError: a document can't be read or is too long.
    """
    texts = {}
    for path in sorted(folder.rglob("[0-9]*.json"))[: csaf.DOCUMENTS + 1]:
        with path.open(encoding="utf-8") as file:
            texts[path.name] = file.read(csaf.BYTES + 1)
    return texts


def chart_parts() -> str:
    """Return the table of the parts that each version of the operator's chart brings."""
    found: dict[str, dict[str, str]] = {}
    for section in sections():
        for chart, version in section.versions.items():
            found.setdefault(chart, {})[section.path] = version
    source = "components/charts/images.yaml; written by `make facts`"
    document = {"source": source, "gpu-operator": dict(sorted(found.items()))}
    return json.dumps(document, indent=1) + "\n"


def main(today: date | None = None) -> int:
    """Write the tables; without `CSAF` those that need no bulletins.

    Args:
        today: what has ended before it is marked; the day of the run without it.
    """
    day = today or date.today()
    given = os.environ.get("CSAF", "")
    try:
        if given:
            text = csaf.table(documents(Path(given)))
            floors.TABLE.write_text(text, encoding="utf-8")
            entries = floors.read(text)
            bulletins = len({entry.bulletin for entry in entries})
            print(f"facts: {bulletins} bulletins with {len(entries)} borders: {floors.TABLE.name}")
        parts.TABLE.write_text(chart_parts(), encoding="utf-8")
        print(f"facts: parts of the operator's chart: {parts.TABLE.name}")
        (ROOT / PAGE).write_text(page(PROVED, day), encoding="utf-8")
        print(f"facts: ends of support: {PAGE}")
    except (OSError, ValueError) as error:
        cure = "give a folder of CSAF 2.0 documents: make facts CSAF=<folder>"
        print(Fault("CSAF", str(error), "NVIDIA's bulletins", cure), file=sys.stderr)
        return 1
    for line in overdue(ROOT, day):
        print(f'facts: {line}: write "ended" in that line, or name a supported version')
    return 0


if __name__ == "__main__":
    sys.exit(main())
