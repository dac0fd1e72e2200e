"""Test that each command for users can be run twice with the same result.

The commands are run by `make`, on an embedded cluster with simulated hosts, in a copy of the
project that is a git repository.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_cluster.commands.environment import local_backend
from tests.commands.evidence.forged import write_keys
from tests.guard import own_name
from tests.proofs.e2e.project import LIMIT, Project, started

ROOT = Path(__file__).resolve().parents[3]
TARGET = re.compile(r"^([a-z-]+):.*## ", re.MULTILINE)
# make targets for users, in the order of the test. Targets that need a deployed stack run while the
# stack is deployed.
USERS = (
    *("help", "env", "tools", "images", "sbom", "release", "audit"),
    *("start", "preview", "comment", "up", "validate", "evidence", "verify-evidence", "status"),
    *("who", "report", "support-bundle"),
    *("why", "new", "adopt", "host-keys", "probe-key", "preview-state"),
    *("preview-secrets", "forget", "destroy", "leave", "down"),
)
# make targets for developers: tests, and files generated from the project.
DEVELOPERS = re.compile(
    r"test.*|proofs|promises|pictures|errors|facts|roles|change-schema|stack-schema|fuzz|check|bench|lock|"
    r"clean|house|site|verbs|changelog|rehearse-release"
)
# Targets that fail when they are run a second time, with a part of the error message.
REFUSED = {"forget": "which is not in the state"}
# Targets that fail each time, with a part of the error message: simulated hosts have no probe
# installed, the test names no pod, and the stack has a file.
NOT_READY = {"probe-key": "0 of 2 hosts run the probe", "why": "POD=", "new": "a file that exists"}


def test_each_target_is_a_user_s_or_a_developer_s() -> None:
    targets = TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8"))
    users = {target for target in targets if not DEVELOPERS.fullmatch(target)}
    # The help doesn't list itself.
    assert {"help", *users} == set(USERS)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project.make(tmp_path, own_name("twice"))
    for command in (
        ("init", "--quiet"),
        ("add", "."),
        ("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "All"),
    ):
        subprocess.run(["git", *command], cwd=project.root, check=True, timeout=60)
        (project.root / ".git" / "info" / "exclude").write_text("venv\nvenv-audit\n")
    complete = project.root / "venv-audit" / ".complete"
    complete.parent.mkdir()
    # An empty .complete file keeps `make` from downloading the programs for `make audit`.
    complete.touch()
    (tmp_path / "previews").mkdir()
    write_keys(tmp_path)
    project.environment |= {
        "HOST": "gpu-2",
        "GPU_CLUSTER_CHANGE": str(tmp_path / "change.json"),
        "CHANGE": str(tmp_path / "change.json"),
        "PREVIEW_BACKEND_URL": local_backend(tmp_path / "previews"),
        "PREVIEW_PASSPHRASE": "previews",
        "PROBE_KEY": str(tmp_path / "keys" / "probe"),
        "KEY": str(tmp_path / "evidence.key"),
        "PUBLIC": str(tmp_path / "evidence.pub"),
        "EVIDENCE": str(tmp_path / "evidence.json"),
        "FILE": str(tmp_path / "evidence.json"),
        "SIMULATED": "1",
        "GOPROXY": "off",
        "GOFLAGS": "-mod=mod",
    }
    with started(project):  # Whatever fails in the test, remove the cluster at the end.
        yield project


def run(project: Project, target: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        # The copy's virtual environment is a link to a complete one, so `make` must not rebuild it.
        ["make", "--silent", "--old-file=venv/.complete", target],
        cwd=project.root,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=LIMIT,
        check=False,
    )


@pytest.mark.full
@pytest.mark.promise("Each command of `make` that a user has can be run again, and ends alike.")
def test_each_command_of_a_user_can_be_run_again(project: Project) -> None:
    for target in USERS:
        stack_file = project.file.read_bytes()
        for again in (False, True):
            done = run(project, target)
            print(f"{target}: {done.returncode}", flush=True)
            said = NOT_READY.get(target, REFUSED.get(target, "") if again else "")
            assert (done.returncode != 0) == bool(said), done.stdout
            assert said in done.stdout
            assert "Traceback" not in done.stdout
        if target == "adopt":
            assert "nothing written" in done.stdout
        if target in ("adopt", "preview-secrets"):
            # Restore the stack file. `adopt` writes it only in a project that adopts a cluster, and
            # `preview-secrets` fills in placeholders only in a preview's checkout.
            project.file.write_bytes(stack_file)
        assert project.file.read_bytes() == stack_file, target
