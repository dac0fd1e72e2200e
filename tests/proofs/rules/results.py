"""Results of the full test of the rules, stored as JSON, and the summary line of these results.

Each part of the test writes a file to `tests/results`: `api-server.json`, `admission.json` (from
`admission-1.json` and so on), `world.json`, `agents.json`, `mutation.json`,
`exports-gatekeeper.json`, `exports-kyverno.json`, `arithmetic.json` and `repositories.json`.
`python -m tests.proofs.rules.results` prints the summary line, and names the parts that have not
run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_rules.rules import RULES

PARTS = (
    "api-server",
    "admission",
    "world",
    "agents",
    "mutation",
    "exports-gatekeeper",
    "exports-kyverno",
    "arithmetic",
    "repositories",
)
EXPORTS = ("admission", "exports-gatekeeper", "exports-kyverno")
"""The parts that judge by an export: by the API server, by Gatekeeper and by Kyverno."""

FOLDER = Path(__file__).parents[2] / "results"


def store(part: str, found: Mapping[str, Any]) -> None:
    """Store the results of one part of the test as JSON."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{part}.json").write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")


def load(part: str) -> dict[str, Any] | None:
    """Return the stored results of one part of the test, or None if this part has not run."""
    file = FOLDER / f"{part}.json"
    return json.loads(file.read_text()) if file.is_file() else None


def together(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the combined results of several runs of a part: numbers are summed, lists joined."""

    def total(values: Sequence[Any]) -> Any:
        if isinstance(values[0], Mapping):
            return {key: total([value[key] for value in values]) for key in values[0]}
        return sum(values[1:], values[0])

    whole: dict[str, Any] = total(list(parts))
    # These two numbers count rules, which are the same in each run, so they must not be summed.
    same = ("at_admission", "by_the_api_server")
    return whole | {name: parts[0][name] for name in same if name in parts[0]}


def line() -> str:
    """Return the summary line of the test from the stored results of all parts."""
    found = {part: load(part) for part in PARTS}
    api, admission, world, agents, mutation = (found[part] for part in PARTS[:5])
    # A run against the API server only stores its cases if all cases agree; otherwise it fails.
    cases = sum(figures["cases"] for figures in (api, admission) if figures)
    agree = sum(figures.get("agree", figures["cases"]) for figures in (api, admission) if figures)
    parts = [f"{len(RULES)} rules"]
    if admission:
        parts.append(f"{len(admission['rules'])} at admission")
    parts.append(f"{agree} of {cases} cases agree")
    if world:
        parts.append(
            f"world {world['agree']} of {world['cases']} objects as expected"
            f" ({world['corrected']} corrected)"
        )
    if agents:
        parts.append(f"{agents['agree']} of {agents['cases']} agents admitted")
    judged = [figures for part in EXPORTS if (figures := found[part])]
    whole = sum(figures.get("agree", figures["cases"]) == figures["cases"] for figures in judged)
    parts.append(f"exports {whole} of {len(EXPORTS)} agree")
    if mutation:
        share = 100 * mutation["killed"] / mutation["mutants"]
        parts.append(f"{int(share)} % of mutants killed")
    if arithmetic := found["arithmetic"]:
        parts.append(f"arithmetic of Kubernetes {arithmetic['cases']} cases agree")
    if repositories := found["repositories"]:
        parts.append(_repositories(repositories))
    missing = [part for part, result in found.items() if result is None]
    return f"rules: {', '.join(parts)}" + (f" (not run: {', '.join(missing)})" if missing else "")


def _repositories(figures: Mapping[str, Any]) -> str:
    """Return the part of the line about public repositories."""
    count = f"{figures['repositories']} repositories"
    if not figures["repositories"]:
        return count
    share = 100 * figures["wrong"] / max(figures["objects"], 1)
    return (
        f"{count}: {figures['unreadable']} unreadable for no reason, "
        f"{share:.1f} % wrong alarms, {figures['mandatory']} mandatory"
    )


if __name__ == "__main__":
    sys.stdout.write(line() + "\n")
