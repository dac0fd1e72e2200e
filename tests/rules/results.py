"""What a run of the full proof found, as JSON, and the line that sums it up.

Each part of the proof writes one file into `tests/results`: `api-server.json`, `admission.json`
(from `admission-1.json` and so on), `mutation.json`. `python -m tests.rules.results` prints the
line from them and names what has not run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from policies.rules import RULES

PARTS = ("api-server", "admission", "mutation")


FOLDER = Path(__file__).parents[1] / "results"


def store(part: str, found: Mapping[str, Any]) -> None:
    """Write what a part of the proof found."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{part}.json").write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")


def load(part: str) -> dict[str, Any] | None:
    """What a part of the proof found, `None` where it has not run."""
    file = FOLDER / f"{part}.json"
    return json.loads(file.read_text()) if file.is_file() else None


def together(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What several runs of one part came to: numbers summed, lists joined."""

    def total(values: Sequence[Any]) -> Any:
        if isinstance(values[0], Mapping):
            return {key: total([value[key] for value in values]) for key in values[0]}
        return sum(values[1:], values[0])

    whole: dict[str, Any] = total(list(parts))
    same = ("at_admission", "by_the_api_server")  # of the rules, not of the cases
    return whole | {name: parts[0][name] for name in same if name in parts[0]}


def line() -> str:
    """The last line of the proof, each figure from the stored results."""
    found = {part: load(part) for part in PARTS}
    api, admission, mutation = (found[part] for part in PARTS)
    # A run stores its cases only when all of them agree: one that does not fails instead.
    cases = sum(figures["cases"] for figures in (api, admission) if figures)
    agree = sum(figures.get("agree", figures["cases"]) for figures in (api, admission) if figures)
    parts = [f"{len(RULES)} rules"]
    if admission:
        parts.append(f"{len(admission['rules'])} at admission")
    parts.append(f"{agree} of {cases} cases agree")
    if mutation:
        share = 100 * mutation["killed"] / mutation["mutants"]
        parts.append(f"{int(share)} % of mutants killed")
    missing = [part for part, result in found.items() if result is None]
    return f"rules: {', '.join(parts)}" + (f" (not run: {', '.join(missing)})" if missing else "")


if __name__ == "__main__":
    sys.stdout.write(line() + "\n")
