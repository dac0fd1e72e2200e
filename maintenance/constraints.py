"""Parts of requirements.lock: for the wheels of a release, and for the rules alone.

The versions and hashes are those of requirements.lock, so a site gets what the release was tested
with. Each part is a complete requirements file: ``pip install --require-hashes -r FILE``.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpu_cluster.commands.files import ROOT

_ENTRY = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==", re.MULTILINE)
OWN = ("gpu-cluster", "gpu-cluster-lab", "gpu-rules")
RULES = "policies/pyproject.toml"
RULES_LOCK = ROOT / "policies" / "gpu_rules" / "requirements.lock"


def constraints(wheels: Iterable[Path]) -> str:
    """Return the text of the constraints file.

    Args:
        wheels: The release's own wheels, which are the first entries.
    """
    own_wheels = (
        f"{wheel.name.split('-')[0].replace('_', '-')}=={wheel.name.split('-')[1]} \\\n"
        f"    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"
        for wheel in sorted(wheels)
    )
    return "".join(
        (*own_wheels, _locked(needed("pyproject.toml", RULES, "embedded/pyproject.toml")))
    )


def rules_lock() -> str:
    """Return the text of policies/gpu_rules/requirements.lock: what the checker needs."""
    head = "# What gpu-rules needs, from the project's lock. `make lock` writes this.\n"
    return head + _locked(needed(RULES))


def _locked(names: Iterable[str]) -> str:
    locked = locked_entries((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    return "".join(locked[name] for name in sorted(names))


def locked_entries(text: str) -> dict[str, str]:
    """Return the entries of a lock file without their comments, by the packages' names."""
    lines = [line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#")]
    plain = "".join(lines)
    starts = [match.start() for match in _ENTRY.finditer(plain)]
    return {
        str(canonicalize_name(entry.partition("==")[0])): entry
        for entry in (
            plain[start:end] for start, end in zip(starts, [*starts[1:], len(plain)], strict=True)
        )
    }


def needed(*files: str) -> set[str]:
    """Return the names of all packages that projects need, directly or by others.

    They are read from the packages that this environment has installed.

    Args:
        files: The projects' pyproject.toml, relative to the project's folder.
    """
    names: set[str] = set()
    waiting: list[Requirement] = []
    for file in files:
        project = tomllib.loads((ROOT / file).read_text(encoding="utf-8"))["project"]
        waiting += map(Requirement, project["dependencies"])
    visited: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        name = str(canonicalize_name(requirement.name))
        for extra in ("", *requirement.extras):
            if name not in OWN and (name, extra) not in visited:
                visited.add((name, extra))
                names.add(name)
                waiting += _requirements_of(name, extra)
    return names


def _requirements_of(name: str, extra: str) -> Iterator[Requirement]:
    for line in metadata.requires(name) or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def main() -> None:
    """Write policies/gpu_rules/requirements.lock."""
    RULES_LOCK.write_text(rules_lock(), encoding="utf-8")


if __name__ == "__main__":
    main()
