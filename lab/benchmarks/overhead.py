"""B4: what our configuration, look and rules add to a run that changes nothing."""

from __future__ import annotations

import ast
import statistics
import sys

from lab.benchmarks import peer
from lab.benchmarks.measure import Sample, ratio, timed, write
from lab.benchmarks.project import ROOT, Project, pulumi, running

GOAL = 1.1
ROUNDS = 5
NODES = (10, 100, 500)
PREVIEW = ("preview", "--expect-no-changes", "--suppress-outputs")
UP = ("up", "--yes", "--skip-preview", "--expect-no-changes", "--suppress-outputs")
PEER_IMPORTS = "import pulumi, pulumi_kubernetes"


def imports(program: str) -> str:
    """Everything that a program imports, wherever in it, as a program that does only that."""
    lines = [
        ast.unparse(node)
        for node in ast.walk(ast.parse(program))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    return "\n".join(sorted(lines, key=lambda line: not line.startswith("from __future__")))


def import_time() -> tuple[list[Sample], list[Sample]]:
    """Our program's imports and the peer's, each by a new interpreter."""
    ours, bare = [], []
    code = imports((ROOT / "__main__.py").read_text())
    for _ in range(ROUNDS + 1):
        ours.append(timed([sys.executable, "-c", code], ROOT)[0])
        bare.append(timed([sys.executable, "-c", PEER_IMPORTS], ROOT)[0])
    return ours[1:], bare[1:]  # the first of each fills the page cache


def compare(project: Project) -> dict[str, tuple[list[Sample], list[Sample]]]:
    """Our samples and the bare program's, by command, taken in turn."""
    project.pulumi("up", "--yes", "--skip-preview", "--suppress-outputs")
    folder, environment = peer.make(project)
    result = {}
    for name, arguments in {"preview": PREVIEW, "up": UP}.items():
        ours, bare = [], []
        for _ in range(ROUNDS + 1):
            ours.append(project.pulumi(*arguments)[0])
            bare.append(pulumi(folder, project.stack, environment, *arguments)[0])
        result[name] = ours[1:], bare[1:]
    return result


def _row(what: str, ours: list[Sample], bare: list[Sample]) -> float:
    wall = ratio([run.wall for run in ours], [run.wall for run in bare])
    cpu = ratio([run.cpu for run in ours], [run.cpu for run in bare])
    middle = [statistics.median(run.wall for run in side) for side in (ours, bare)]
    print(
        f"{what}: {middle[0]:.2f} s, bare {middle[1]:.2f} s: {wall:.2f} ×"
        f" (processor time {cpu:.2f} ×)",
        flush=True,
    )
    return wall


def run() -> bool:
    """Measures and prints; whether all goals are met."""
    samples = {"import": import_time()}
    ratios = {"import": _row("import", *samples["import"])}
    for nodes in NODES:
        with running(nodes) as project:
            for command, pair in compare(project).items():
                name = f"{command} at {nodes} nodes"
                samples[name] = pair
                ratios[name] = _row(name, *pair)
    path = write("B4", {"goal": GOAL, "ratios": ratios, "samples": samples})
    print(f"written: {path.relative_to(ROOT)}")
    missed = [f"{name} {value:.2f}" for name, value in ratios.items() if value > GOAL]
    if missed:
        print(f"missed: {', '.join(missed)}")
    most = NODES[-1]
    print(
        f"B4: {ratios[f'preview at {most} nodes']:.2f} × bare preview, "
        f"{ratios[f'up at {most} nodes']:.2f} × bare no-change up at {most} nodes (goal ≤ {GOAL})"
    )
    return not missed
