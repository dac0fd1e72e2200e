"""Attack: deploy credentials with more rights than a deployment needs.

The real Pulumi deploys and destroys a stack as a user with only the committed ClusterRole. An
administrator has created that role and its binding. The API server's audit log shows refusals.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster_lab.simulator.control_plane import AUDIT, ControlPlane
from maintenance.roles import requests
from tests.guard import own_name
from tests.proofs.attacks.allowed import allows
from tests.proofs.e2e.project import Project, started
from tests.proofs.e2e.reader import ROLES, USER, bind, write_kubeconfig


@dataclass
class Deployment:
    """Project of a stack, and the kubeconfig of the user that deploys the stack."""

    project: Project
    kubeconfig: Path

    def pulumi(self, *arguments: str) -> str:
        done = self.project.pulumi(*arguments, KUBECONFIG=str(self.kubeconfig))
        assert done.returncode == 0, done.stdout
        return done.stdout

    def events(self) -> list[dict[str, Any]]:
        """Return the API server's audit events of requests by the user that deploys."""
        lines = ControlPlane(self.project.stack).audit_log.read_text().splitlines()
        events = map(json.loads, lines)
        return [event for event in events if event["user"]["username"] == USER]


def role() -> dict[str, Any]:
    return dict(yaml.safe_load((ROLES / "deploy.yaml").read_text()))


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    project = Project.make(tmp_path, own_name("role"))
    project.environment[AUDIT] = "1"
    with started(project):
        bind(project, role())
        path = tmp_path / "kubeconfig"
        write_kubeconfig(project, path)
        yield Deployment(project, path)


@pytest.mark.full
def test_a_stack_goes_up_and_down_with_the_deploy_role_alone(deployment: Deployment) -> None:
    deployment.pulumi("stack", "init", deployment.project.stack)
    up = deployment.pulumi(
        "up", "--yes", "--skip-preview", "--policy-pack", "components/gpu_cluster/guardrails/pack"
    )
    assert "could not inspect everything" not in up
    gpus = json.loads(deployment.pulumi("stack", "output", "--json"))["gpus"]
    assert gpus == {"declared": 32, "computed": 0, "simulated": 32, "deferred": 0}
    deployment.pulumi("preview", "--expect-no-changes")
    deployment.pulumi("destroy", "--yes", "--skip-preview")

    events = deployment.events()
    refused = {
        f"{event['verb']} {event['requestURI']}"
        for event in events
        if event["responseStatus"]["code"] == 403
    }
    assert refused == set()
    asked = requests(map(json.dumps, events))
    assert len(asked) > 30
    assert {request for request in asked if not allows(role(), request)} == set()
