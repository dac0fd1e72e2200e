"""Each command that a user has is run twice: the second run ends as the first.

By `make` itself, on an embedded cluster with simulated hosts, in a copy that is a git repository.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands.environment import local_backend
from tests.e2e.project import LIMIT, Project, started
from tests.guard import own_name

ROOT = Path(__file__).resolve().parents[2]
TARGET = re.compile(r"^([a-z-]+):.*## ", re.MULTILINE)
#: In the order in which they are run: what needs the stack comes while it is up.
USERS = (
    *("help", "env", "tools", "images", "sbom", "release", "audit"),
    *("start", "preview", "up", "validate", "probe-key", "preview-state", "preview-secrets"),
    *("forget", "destroy", "down"),
)
#: Of those who change the project: its tests, and what is generated from it.
DEVELOPERS = re.compile(r"test.*|promises|facts|roles|fuzz|language|check|bench|lock|clean|house")
#: What a second run says and the first doesn't, with exit code 1.
REFUSED = {"forget": "of which the state holds nothing"}
#: The probe isn't on the simulated hosts, and the command says so in each run.
NOT_READY = {"probe-key": "0 of 2 hosts run the probe"}


def test_each_target_is_a_user_s_or_a_developer_s() -> None:
    targets = TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8"))
    users = {target for target in targets if not DEVELOPERS.fullmatch(target)}
    assert users == set(USERS)


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
    complete.touch()  # its programs come by the network
    (tmp_path / "previews").mkdir()
    project.environment |= {
        "HOST": "gpu-2",
        "PREVIEW_BACKEND_URL": local_backend(tmp_path / "previews"),
        "PREVIEW_PASSPHRASE": "previews",
        "PROBE_KEY": str(tmp_path / "keys" / "probe"),
        "GOPROXY": "off",
        "GOFLAGS": "-mod=mod",
    }
    with started(project):  # so that all of it is removed, whatever fails
        yield project


def run(project: Project, target: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        # The copy's virtual environment is a link to one that is made.
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
        if target == "preview-secrets":
            project.file.write_bytes(stack_file)  # only a preview's checkout keeps placeholders
        assert project.file.read_bytes() == stack_file, target
