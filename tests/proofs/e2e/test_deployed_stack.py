"""Tests of a stack that is up, with the real engine, an embedded cluster and real SSH.

The tests share one deployed stack, and each test leaves it as it was.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_cluster_lab import toolchain
from tests.fixtures.programs import run_program
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import Json, Project, figures
from tests.proofs.e2e.reader import reading_user

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("deployed")]


@pytest.fixture(scope="module")
def deployed(project: Project) -> Iterator[None]:
    """Deploy the stack, and destroy it after the tests."""
    assert figures(project.up())[:2] == (32, 32)
    yield
    assert project.command("destroy").returncode == 0


@pytest.mark.promise(
    "The lines `next:` of `gpu-cluster up` work when they are pasted into a shell."
)
def test_the_next_lines_work_when_they_are_pasted(project: Project) -> None:
    """The lines `next:` must work in a user's shell, even after another stack was selected."""
    # Because requirements.lock has an old time stamp, `make` does not rebuild the virtual
    # environment.
    os.utime(project.root / "requirements.lock", (0, 0))
    done = project.command("up")
    lines = re.findall(r"^next: (.*)$", done.stdout, re.M)
    assert lines[-1].endswith("&& pulumi preview)"), done.stdout
    assert len(lines) == (3 if shutil.which("kubectl") else 1)
    assert project.pulumi("stack", "init", "another").returncode == 0
    shell = {name: value for name, value in project.environment.items() if name != "STACK"}
    try:
        for line in lines:
            pasted = run_program(["bash", "-c", line], cwd=project.root, env=shell, timeout=300)
            assert pasted.returncode == 0, pasted.stdout + pasted.stderr
            named = project.stack if "pulumi" in line else "gpu-4" if "nodes" in line else ""
            assert named in pasted.stdout
    finally:
        project.pulumi("stack", "rm", "another", "--yes")


def test_a_machine_gets_one_document_and_a_person_the_engines_own_output(project: Project) -> None:
    done = project.command("preview", JSON="1")
    answer = json.loads(done.stdout[done.stdout.index("\n{") :])
    assert (answer["command"], answer["succeeded"], answer["resources"]) == ("preview", True, [])
    assert set(answer["steps"]) == {"same"}
    assert (answer["version"], answer["outcome"]) == ("v1", "unchanged")
    assert answer["gpus"] == {"before": 32, "after": 32}
    again = project.command("preview", JSON="1").stdout
    assert again[again.index("\n{") :] == done.stdout[done.stdout.index("\n{") :]
    verbose = project.command("preview", VERBOSE="1")
    assert "Previewing update" in verbose.stdout


def test_a_private_key_that_cannot_be_used_is_one_error_with_its_cure(
    project: Project, tmp_path: Path
) -> None:
    for content, cause in ((None, "which can't be read"), ("canary", "found Invalid private key")):
        path = tmp_path / f"key-{content}"
        if content:
            path.write_text(content)
        done = project.pulumi("preview", GPU_CLUSTER_SSH_PRIVATE_KEY_FILE=str(path))
        assert done.returncode != 0
        told = done.stdout.rpartition("Diagnostics:")[2]
        assert told.count(cause) == 1
        assert "pulumi config set --secret" in told
        assert "Traceback" not in done.stdout
        assert "canary\n" not in done.stdout


def test_an_extent_that_is_none_is_refused_with_its_cure(project: Project) -> None:
    done = project.pulumi("preview", GPU_CLUSTER_INSPECTION="everything")
    assert done.returncode != 0
    assert "found 'everything'; wanted: all, cluster, hosts, off; cure: unset" in done.stdout
    assert "Traceback" not in done.stdout


def test_no_temporary_file_outlives_a_run(project: Project) -> None:
    scratch = toolchain.cache_dir() / "tmp" / project.stack
    # Earlier tests that killed an engine have left temporary files of that engine.
    before = set(scratch.iterdir())
    assert project.command("preview").returncode == 0
    assert project.pulumi("up", "--yes", "--skip-preview").returncode == 0
    assert set(scratch.iterdir()) == before


def test_the_state_serves_machines_that_keep_their_kubeconfig_elsewhere(
    project: Project, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "kubeconfig"
    elsewhere.write_text(Path(project.shell_environment()["KUBECONFIG"]).read_text())
    files = f"{elsewhere}{os.pathsep}{tmp_path / 'none'}"
    preview = project.pulumi("preview", "--expect-no-changes", KUBECONFIG=files)
    assert preview.returncode == 0, preview.stdout
    arguments = ("refresh", "--yes", "--skip-preview", "--expect-no-changes")
    refresh = project.pulumi(*arguments, KUBECONFIG=files)
    assert refresh.returncode == 0, refresh.stdout


@pytest.fixture
def reader(project: Project, tmp_path: Path) -> Iterator[Path]:
    """Create a user with the committed, read-only roles for previews; yield its kubeconfig."""
    path = tmp_path / "kubeconfig"
    with reading_user(project, path):
        yield path


def test_a_preview_needs_no_right_but_to_read(project: Project, reader: Path) -> None:
    same = project.pulumi("preview", "--expect-no-changes", KUBECONFIG=str(reader))
    assert same.returncode == 0, same.stdout
    assert "could not inspect everything" not in same.stdout
    before = project.file.read_text()
    project.edit(lambda cluster: cluster["validation"].update(timeoutSeconds=121))
    changed = project.pulumi("preview", KUBECONFIG=str(reader))
    project.file.write_text(before)
    assert changed.returncode == 0, changed.stdout
    assert re.search(r"^ +(~|\+-) *\d+ to (update|replace)", changed.stdout, re.M)


def test_refresh_finds_no_difference(project: Project) -> None:
    done = project.pulumi("refresh", "--yes", "--skip-preview", "--expect-no-changes")
    assert done.returncode == 0, done.stdout


@pytest.mark.promise(
    "A declared node that is not there, and a host at a wrong port, fail a preview of the embedded "
    "cluster as they do at a site."
)
def test_a_preview_finds_what_is_not_there_and_changes_nothing(project: Project) -> None:
    kept, before = project.read(), snapshot.versions(project)
    found = []
    for change in (
        lambda cluster: cluster["pools"][0].update(nodes=["gpu-[1-4]", "gpu-9"]),
        lambda cluster: cluster["hosts"][1].update(port=1),
        lambda cluster: cluster["pools"][0].update(nodes=["gpu-[1-3]"]),
    ):
        project.edit(change, hardware=False)
        found.append(project.command("preview"))
        project.write(kept, hardware=False)
    missing, wrong, fewer = found
    assert missing.returncode == 1
    assert "node gpu-9: found no such node" in missing.stdout
    assert wrong.returncode == 1
    assert "host gpu-2: found no login as " in wrong.stdout
    assert ":1, stage connection: Connection refused" in wrong.stdout
    assert fewer.returncode == 0, fewer.stdout
    assert snapshot.versions(project) == before


def test_an_edit_changes_exactly_what_it_names(project: Project) -> None:
    def relabel(cluster: Json) -> None:
        cluster["pools"][0]["labels"] = {"nvidia.com/gpu": "true", "example.com/rack": "r1"}

    declared = project.file.read_text()
    project.edit(relabel)
    preview = project.pulumi("preview", "--json")
    assert preview.returncode == 0, preview.stdout
    steps = json.loads(preview.stdout[preview.stdout.index("{") :])["steps"]
    touched = {step["urn"].split("::")[-1] for step in steps if step["op"] != "same"}
    assert touched == {"gpu-cluster-node-scheduling.pools"}
    assert figures(project.up()) == (32, 32, 1)
    labels = project.request("GET", "nodes/gpu-4")["metadata"]["labels"]
    assert labels["example.com/rack"] == "r1"
    project.file.write_text(declared)
    assert figures(project.up()) == (32, 32, 1)
    labels = project.request("GET", "nodes/gpu-4")["metadata"]["labels"]
    assert "example.com/rack" not in labels


def test_a_label_changed_by_hand_shows_in_the_preview_and_is_repaired_once(
    project: Project,
) -> None:
    value = project.request("GET", "nodes/gpu-3")["metadata"]["labels"]["nvidia.com/gpu"]
    project.request(
        "PATCH",
        "nodes/gpu-3",
        body={"metadata": {"labels": {"nvidia.com/gpu": None}}},
        content_type="application/merge-patch+json",
    )
    preview = project.pulumi("preview")
    drift = f"drift: node gpu-3: label nvidia.com/gpu {value} → absent"
    assert re.search(f"^ *{re.escape(drift)}$", preview.stdout, re.M)
    ours = project.command("preview")
    assert f"{drift}\n" in ours.stdout
    assert "GPUs 32 as before; nothing is validated; nobody drained\n" in ours.stdout
    assert figures(project.up()) == (32, 32, 1)
    labels = project.request("GET", "nodes/gpu-3")["metadata"]["labels"]
    assert labels["nvidia.com/gpu"] == value
    assert figures(project.up()) == (32, 32, 0)


@pytest.mark.promise(
    "An edit by hand of an object of the release is drift, and the next run repairs it."
)
def test_a_hand_edit_of_the_release_is_named_and_repaired(project: Project) -> None:
    url, base = "namespaces/nvidia-device-plugin/daemonsets/nvidia-device-plugin", "/apis/apps"
    before = project.request("GET", url, base=base)["spec"]["template"]
    (container,) = before["spec"]["containers"]
    edited = {"name": container["name"], "env": [{"name": "FAIL_ON_INIT_ERROR", "value": "no"}]}
    project.request(
        "PATCH",
        url,
        base=base,
        body={"spec": {"template": {"spec": {"containers": [edited]}}}},
        content_type="application/strategic-merge-patch+json",
        params={"fieldManager": "kubectl-set"},
    )
    place = f"spec.template.spec.containers[{container['name']}].env[FAIL_ON_INIT_ERROR]"
    drift = re.compile(
        "drift: object DaemonSet nvidia-device-plugin/nvidia-device-plugin: field "
        rf"{re.escape(place)}[.\w]* \(kubectl-set, [-:TZ0-9]+\) .* → "
    )
    status = project.command("status")
    assert status.returncode in (2, 3), status.stdout
    assert drift.search(status.stdout), status.stdout
    assert drift.search(project.command("preview").stdout)
    assert figures(project.up())[:2] == (32, 32)
    after = project.request("GET", url, base=base)["spec"]["template"]
    assert after == before
    again = project.command("status")
    assert again.returncode == 0, again.stdout
    assert "drift" not in again.stdout
    assert figures(project.up()) == (32, 32, 0)
