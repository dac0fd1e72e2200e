"""Program of ``make facts``: write the tables of `policies/gpu_rules/facts/`, and their pages.

``CSAF=<folder>`` also reads NVIDIA's security bulletins, ``REPOSITORIES=<folder>`` git directories
of the makers' public repositories, each as `OWNER+NAME/repo`.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import date
from pathlib import Path

from gpu_cluster.charts.images import sections
from gpu_cluster.settings.support import PAGE, outdated, overdue, page
from gpu_cluster_lab.toolchain.pins import CONTAINERD, KUBERNETES_MODULES
from gpu_rules.facts import csaf, engine_floors, floors, parts, reference
from gpu_rules.facts.transitions import TABLE as TRANSITIONS
from gpu_rules.facts.transitions import histories
from gpu_rules.faults import Fault
from maintenance import engine_floors as engines
from maintenance import transitions

ROOT = Path(__file__).resolve().parents[1]
PROVED = {
    "kubernetes": tuple(KUBERNETES_MODULES),
    "containerd": ("1.6.20 (Debian 12's)", *CONTAINERD),
    "debian": ("12",),
}
"""The versions that the proofs in this repository run with, by component."""


def documents(folder: Path) -> dict[str, str]:
    """Return the texts of the CSAF documents in a folder, by file name.

    Raises:
        OSError: A document can't be read.
        ValueError: A document is not valid UTF-8.
    """
    texts = {}
    for path in sorted(folder.rglob("[0-9]*.json"))[: csaf.DOCUMENTS + 1]:
        with path.open(encoding="utf-8") as file:
            texts[path.name] = file.read(csaf.BYTES + 1)
    return texts


def chart_parts() -> str:
    """Return a JSON table of the component versions in each version of the GPU Operator's chart."""
    versions_by_chart: dict[str, dict[str, str]] = {}
    for section in sections():
        for chart, version in section.versions.items():
            versions_by_chart.setdefault(chart, {})[section.path] = version
    source = "components/gpu_cluster/charts/images.yaml; written by `make facts`"
    document = {"source": source, "gpu-operator": dict(sorted(versions_by_chart.items()))}
    return json.dumps(document, indent=1) + "\n"


def main(today: date | None = None) -> int:
    """Write the tables and the page about ends of support; return the exit code.

    Without the variable `CSAF`, the table that needs NVIDIA's security bulletins is left as it is;
    without `REPOSITORIES`, the releases in the table of transitions, and the weaknesses of engines.

    Args:
        today: The date that decides which versions are out of support; the current date by default.
    """
    day = today or date.today()
    folder = os.environ.get("CSAF", "")
    repositories = os.environ.get("REPOSITORIES", "")
    try:
        if folder:
            text = csaf.table(documents(Path(folder)))
            floors.TABLE.write_text(text, encoding="utf-8")
            entries = floors.read(text)
            bulletins = len({entry.bulletin for entry in entries})
            print(f"facts: {bulletins} bulletins with {len(entries)} borders: {floors.TABLE.name}")
        parts.TABLE.write_text(chart_parts(), encoding="utf-8")
        print(f"facts: parts of the operator's chart: {parts.TABLE.name}")
        TRANSITIONS.write_text(
            transitions.table(Path(repositories) if repositories else None), encoding="utf-8"
        )
        print(f"facts: transitions from version to version: {TRANSITIONS.name}")
        if repositories:
            text = engines.table(Path(repositories))
            engine_floors.TABLE.write_text(text, encoding="utf-8")
            print(f"facts: weaknesses of containerd and runc: {engine_floors.TABLE.name}")
        (ROOT / PAGE).write_text(page(PROVED, day), encoding="utf-8")
        print(f"facts: ends of support: {PAGE}")
        for cached in (floors.floors, engine_floors.weaknesses, parts.operator_charts, histories):
            cached.cache_clear()
        (ROOT / reference.PAGE).write_text(reference.page(), encoding="utf-8")
        print(f"facts: all of them: {reference.PAGE}")
    except (OSError, ValueError) as error:
        cure = "give a folder of CSAF 2.0 documents: make facts CSAF=<folder>"
        print(Fault("CSAF", str(error), "NVIDIA's bulletins", cure), file=sys.stderr)
        return 1
    for line in overdue(ROOT, day):
        print(f'facts: {line}: write "ended" in that line, or name a supported version')
    for line in outdated(ROOT):
        print(f"facts: {line}: name that release")
    return 0


if __name__ == "__main__":
    sys.exit(main())
