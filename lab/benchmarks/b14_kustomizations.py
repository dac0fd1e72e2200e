"""B14: the time in which the checker builds and judges kustomizations, against `kubectl kustomize`.

The kustomizations are those of public repositories, in the folder that GPU_REPOSITORIES names. Each
round builds them one after the other, by `kustomize build` or `kubectl kustomize`, and then checks
the same kustomizations with one `gpu-rules check`. The goal compares wall times: the checker's, and
the sum of the builds divided by the number of processor cores.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path

from gpu_rules.check import kustomization
from gpu_rules.check.tool import NotRendered
from lab.benchmarks.measure import BenchmarkError, Sample, ratio, timed, write

GOAL = 1.3
COUNT = 229
"""Number of kustomizations; fewer if the repositories have fewer."""
ROUNDS = 3
LIMIT = 60
"""Timeout in seconds of a build, as that of the checker."""


def candidates(world: Path) -> Iterator[str]:
    """Yield the folders with a kustomization in checkouts, in turn from each repository.

    Args:
        world: Folder with a checkout of each repository.
    """
    repositories = (_folders(checkout) for checkout in sorted(world.iterdir()) if checkout.is_dir())
    rounds = zip_longest(*repositories)
    return (folder for folder in chain.from_iterable(rounds) if folder is not None)


def _folders(checkout: Path) -> Iterator[str]:
    """Yield the folders with a kustomization that the checker builds for itself, in order."""
    for folder, inner, names in os.walk(checkout):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        if not any(name in kustomization.NAMES for name in names):
            continue
        found = kustomization.read(folder)
        if found is not None and not found.is_component:
            yield folder


def builder() -> tuple[str, ...]:
    """Return the command that builds a kustomization, which the checker uses, too.

    Raises:
        BenchmarkError: The machine has no such program.
    """
    for name, verb in (("kustomize", "build"), ("kubectl", "kustomize")):
        if path := shutil.which(name):
            return path, verb
    raise BenchmarkError("neither kustomize nor kubectl is on PATH")


def checked(folders: Iterable[str], command: Sequence[str]) -> Iterator[str]:
    """Yield the folders that the checker and the command can build without a download."""
    for folder in folders:
        found = kustomization.read(folder)
        try:
            if found is None or not kustomization.build(found):
                continue
        except NotRendered:
            continue
        if not subprocess.run(
            [*command, folder], capture_output=True, timeout=LIMIT, check=False
        ).returncode:
            yield folder


def _build_each(folders: Sequence[str], command: Sequence[str], place: Path) -> float:
    """Return the seconds in which a command builds the kustomizations one after the other."""
    return sum(timed([*command, folder], place)[0].wall for folder in folders)


def _check(folders: Sequence[str], place: Path) -> Sample:
    """Check the kustomizations in one run, and return its times.

    Raises:
        BenchmarkError: The checker left out a kustomization.
    """
    files = [str(kustomization.file_of(folder)) for folder in folders]
    command = [sys.executable, "-m", "gpu_rules.check", "--mixed", "--format", "json"]
    output = place / "report.json"
    given = ["sh", "-c", '"$@" > report.json; test $? -le 2', "sh", *command, *files]
    sample, _ = timed(given, place)
    left = [
        each["file"]
        for each in json.loads(output.read_text())["unjudged"]
        if each["what"] == kustomization.KIND
    ]
    if left:
        raise BenchmarkError(f"the checker did not build {', '.join(left[:3])}")
    return sample


def run(environment: Mapping[str, str] = os.environ) -> bool:
    """Measure and print the ratio; return whether it is at most `GOAL`.

    Without repositories nothing is measured, and the result is True.
    """
    world = environment.get("GPU_REPOSITORIES", "")
    if not world:
        print("B14: GPU_REPOSITORIES names no folder of checkouts: 0 repositories")
        return True
    command, cores = builder(), len(os.sched_getaffinity(0))
    folders = list(islice(checked(candidates(Path(world)), command), COUNT))
    if not folders:
        raise BenchmarkError(f"{world} has no kustomization that can be built")
    builds, checks = [], []
    with tempfile.TemporaryDirectory(prefix="kustomizations-") as place:
        for _ in range(ROUNDS):
            builds.append(_build_each(folders, command, Path(place)) / cores)
            checks.append(_check(folders, Path(place)).wall)
    found = ratio(checks, builds)
    met = found <= GOAL
    write("B14", {"goal": GOAL, "builds": builds, "checks": checks, "ratio": found, "met": met})
    name = Path(command[0]).name
    repositories = len({Path(folder).relative_to(world).parts[0] for folder in folders})
    print(
        f"B14: {len(folders)} kustomizations of {repositories} repositories: {found:.2f} × the sum "
        f"of {name}'s times divided by {cores} cores (goal ≤ {GOAL})"
    )
    return met
