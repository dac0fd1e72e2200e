"""Attack: preview credentials with more rights than a preview needs.

An administrator deploys a stack. The real Pulumi then previews the stack as a user who has only
the roles in `policies/roles`. The API server's audit log shows rejected requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml

from gpu_cluster_lab.simulator.control_plane import AUDIT, ControlPlane
from tests.guard import own_name
from tests.proofs.e2e.project import Project, started
from tests.proofs.e2e.reader import PLUGIN, USER, reading_user


@dataclass
class Previewing:
    """Project of a stack, and the kubeconfig of the user that previews the stack."""

    project: Project
    kubeconfig: Path

    def preview(self) -> str:
        done = self.project.pulumi(
            "preview", "--expect-no-changes", KUBECONFIG=str(self.kubeconfig)
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    @contextmanager
    def only(self) -> Iterator[None]:
        """Let the commands for the embedded cluster log in as the previewing user, too."""
        path = Path(self.project.shell_environment()["KUBECONFIG"])
        kept = path.read_text()
        path.write_text(self.kubeconfig.read_text())
        try:
            yield
        finally:
            path.write_text(kept)

    def refused(self) -> set[str]:
        """Return the previewing user's rejected requests, except server-side dry runs."""
        lines = ControlPlane(self.project.stack).audit_log.read_text().splitlines()
        events = [event for event in map(json.loads, lines) if event["user"]["username"] == USER]
        assert len(events) > 10
        return {
            f"{event['verb']} {event['requestURI']}"
            for event in events
            if event["responseStatus"]["code"] == 403 and "dryRun=All" not in event["requestURI"]
        }

    def status(self, path: str) -> int:
        """Return the status code of the API server's response to a GET request of that user."""
        document = yaml.safe_load(self.kubeconfig.read_text())
        headers = {"Authorization": f"Bearer {document['users'][0]['user']['token']}"}
        server = document["clusters"][0]["cluster"]["server"]
        # The server's certificate isn't verified, because only the status code matters here.
        return httpx.get(f"{server}/api/v1/{path}", headers=headers, verify=False).status_code  # noqa: S501


@pytest.fixture
def previewing(tmp_path: Path) -> Iterator[Previewing]:
    project = Project.make(tmp_path, own_name("prole"))
    project.environment[AUDIT] = "1"
    with started(project):
        project.up()
        path = tmp_path / "kubeconfig"
        with reading_user(project, path):
            yield Previewing(project, path)


@pytest.mark.full
@pytest.mark.promise("A preview needs no more than the roles of policies/roles/preview.yaml.")
def test_a_stack_is_previewed_with_the_preview_roles_alone(previewing: Previewing) -> None:
    text = previewing.preview()
    assert "could not inspect everything" not in text
    assert previewing.refused() == set()
    assert previewing.status(f"namespaces/{PLUGIN}/secrets") == 200
    for path in ("secrets", "namespaces/kube-system/secrets", "namespaces/default/secrets"):
        assert previewing.status(path) == 403


@pytest.mark.full
@pytest.mark.promise(
    "`gpu-cluster status`, `gpu-cluster who` and `gpu-cluster support-bundle` need no more "
    "than the roles of previews."
)
def test_what_only_reads_needs_the_preview_roles_alone(previewing: Previewing) -> None:
    endings = {
        "status": r"status: stack .*: 32 of 32 simulated GPUs usable.*",
        "who": r"who: nvidia\.com/gpu: 0 of 32 held, 32 free",
        "support_bundle": r"support-bundle: 8 parts of 8, support-.*\.tar\.gz",
    }
    with previewing.only():
        for command, ending in endings.items():
            done = previewing.project.command(command)
            assert done.returncode == 0, done.stdout
            assert re.fullmatch(ending, done.stdout.splitlines()[-1]), done.stdout
    assert previewing.refused() == set()
