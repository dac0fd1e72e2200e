"""What a preview claims is what a run does, measured at the API server and on the hosts.

Each edit is previewed and run, and so is the way back, which removes what the edit added. The
quantities are read again after the cluster has settled, because the engine deletes last what is no
longer declared, and simulated kubelets need seconds to notice it. GPU_CLUSTER_EDITS_SEED chooses
the sample; FULL=1 runs all, GPU_CLUSTER_EDITS_PART=2/8 the second eighth of them.
"""

from __future__ import annotations

import copy
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_cluster.change.document import Document
from gpu_cluster.change.file import VARIABLE
from gpu_cluster.loading.loader import load
from tests.fixtures.programs import run_program
from tests.guard import own_name
from tests.proofs.e2e import claims
from tests.proofs.e2e.claims import Edit, Quantities
from tests.proofs.e2e.edits import EDITS, section
from tests.proofs.e2e.kills import chance
from tests.proofs.e2e.project import LIMIT, Json, Project, started

pytestmark = pytest.mark.full

SEED = "GPU_CLUSTER_EDITS_SEED"
PART = "GPU_CLUSTER_EDITS_PART"
HOSTS = ("gpu-1", "gpu-2")
DEPLOYED: dict[str, Json] = {}
"""Stack file that the last run deployed, by stack; none after a run that failed."""


def chosen() -> list[str]:
    """Return the names of the edits to run: one of each kind, or all with FULL=1."""
    if os.environ.get("FULL") == "1":
        part, _, parts = os.environ.get(PART, "1/1").partition("/")
        return list(EDITS)[int(part) - 1 :: int(parts)]
    rng = chance(os.environ.get(SEED, "1"))
    kinds: dict[str, list[str]] = {}
    for name, edit in EDITS.items():
        kinds.setdefault(edit.kind, []).append(name)
    return [rng.choice(names) for names in kinds.values()]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = Project.make(tmp_path_factory.mktemp("claims"), own_name("claims"))
    with started(made):
        made.request("POST", "namespaces", body={"metadata": {"name": "claims"}})
        yield made


@pytest.fixture(scope="module")
def first(project: Project) -> Json:
    """Return the project's first stack file."""
    return project.read()


def nodes(document: Json) -> dict[str, tuple[str, ...]]:
    """Return the nodes of each pool that a stack file lists, without nodes in maintenance."""
    cluster = load(document)
    resting = cluster.nodes_in_maintenance
    return {
        pool.name: tuple(name for name in pool.node_names if name not in resting)
        for pool in cluster.pools
    }


def kept_gpus(before: Json, after: Json) -> dict[str, int]:
    """Return the number of healthy GPUs of each node that is in a pool before and after a run."""
    stays = {name for names in nodes(after).values() for name in names}
    return {
        name: pool.gpus_per_node - len(pool.unhealthy_devices[name].index)
        if name in pool.unhealthy_devices
        else pool.gpus_per_node
        for pool in load(before).pools
        for name in pool.node_names
        if name in stays
    }


def deploy(project: Project, document: Json) -> None:
    """Deploy a stack file, if it is not what the last run deployed."""
    if DEPLOYED.get(project.stack) == document:
        return
    project.write(document, hardware=False)
    done = project.command("up")
    assert done.returncode == 0, done.stdout
    DEPLOYED[project.stack] = document
    claims.settled(lambda: claims.advertised(project, nodes(document)))


def step(project: Project, after: Json, file: Path) -> tuple[bool, list[str]]:
    """Preview and run an edited stack file.

    Returns:
        Whether the run succeeded, and what differs from the preview's claims.
    """
    before = DEPLOYED.pop(project.stack)
    project.write(after, hardware=False)
    document, said = previewed(project, file)
    found, told = measured(project, before, after)
    if found.succeeds:
        DEPLOYED[project.stack] = after
    wrong = list(claims.differences(claims.claimed(document), found))
    return found.succeeds, [*wrong, "preview:", said, "run:", told] if wrong else []


def previewed(project: Project, file: Path) -> tuple[Document, str]:
    done = project.command("preview", **{VARIABLE: str(file)})
    return Document.read(file.read_bytes()), done.stdout


def ran(project: Project) -> subprocess.CompletedProcess[str]:
    """Run `gpu-cluster up` with JSON=1; standard output has only its document."""
    return run_program(
        ["venv/bin/python", "-m", "gpu_cluster.commands", "up"],
        cwd=project.root,
        env={**project.environment, "JSON": "1"},
        timeout=LIMIT,
    )


def measured(project: Project, before: Json, after: Json) -> tuple[Quantities, str]:
    """Run an edited stack file, and return what happened, with the run's output."""
    # A document counts no node that is in maintenance after the run, neither before nor after.
    resting = load(after).nodes_in_maintenance
    counted = {
        pool: [name for name in names if name not in resting]
        for pool, names in nodes(before).items()
    }
    was, pods = claims.advertised(project, counted), claims.running(project)
    validated, files = claims.records(project), claims.files(project, HOSTS)
    with claims.outages(project, kept_gpus(before, after)) as seen:
        done = ran(project)
        succeeds = done.returncode == 0
        pools = nodes(after if succeeds else before)
        now = claims.settled(lambda: claims.advertised(project, pools))
    left, proofs = claims.running(project), claims.records(project)
    return Quantities(
        succeeds=succeeds,
        before=was,
        after=now,
        evicted={name for name, uid in pods.items() if left.get(name) != uid},
        drained=seen.cordoned,
        validated={name for name, since in proofs.items() if validated.get(name) != since},
        files=claims.changed_files(files, claims.files(project, HOSTS)),
        resources=claims.resources(done.stdout),
        down=seen.down,
    ), done.stderr


@pytest.mark.promise("What a preview says of GPUs, pods, nodes and objects is what the run does.")
@pytest.mark.parametrize("name", chosen())
def test_an_edit_does_what_its_preview_claims(
    project: Project,
    first: Json,
    tmp_path: Path,
    name: str,
    record_property: Callable[[str, object], None],
) -> None:
    edit: Edit = EDITS[name]
    before = copy.deepcopy(first)
    edit.before(before)
    after = copy.deepcopy(before)
    edit.after(after)
    deploy(project, before)
    record_property("edits", 1)
    with claims.workloads(project, edit.workloads):
        has_changed, wrong = step(project, after, tmp_path / "there.json")
        assert not wrong, "\n".join(wrong)
        if has_changed and after != before:
            record_property("edits", 2)
            _, wrong = step(project, before, tmp_path / "back.json")
            assert not wrong, "\n".join(["the way back:", *wrong])


def killed(project: Project) -> None:
    """Edit each host, and kill the run that changes them."""
    project.edit(section(system={"sysctl": {"vm.max_map_count": "262147"}}), hardware=False)
    project.kill_during("up", "gpu-cluster-host-preparation-gpu-1 updating")


def run_of(name: str, **options: str) -> Callable[[Project], None]:
    def command(project: Project) -> None:
        done = project.command(name, **options)
        assert done.returncode == 0, done.stdout

    return command


EVENTS: dict[str, Callable[[Project], None]] = {
    "a killed run": killed,
    "forget": run_of("forget", HOST="gpu-2"),
    "leave of a host": run_of("leave", HOSTS="gpu-2"),
    "destroy": run_of("destroy"),
}


@pytest.mark.parametrize("name", EVENTS)
def test_the_run_after_an_event_does_what_its_preview_claims(
    project: Project, first: Json, tmp_path: Path, name: str
) -> None:
    deploy(project, first)
    DEPLOYED.pop(project.stack)
    EVENTS[name](project)
    after = project.read()
    claims.settled(lambda: claims.advertised(project, nodes(after)))
    DEPLOYED[project.stack] = after
    has_succeeded, wrong = step(project, after, tmp_path / "change.json")
    assert has_succeeded
    assert not wrong, "\n".join(wrong)
