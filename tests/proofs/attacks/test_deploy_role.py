"""Attack: deploy credentials with more rights than a deployment needs.

The real Pulumi deploys and destroys a stack as a user with only the committed ClusterRole. An
administrator has created that role and its binding. The API server's audit log shows refusals.

No audit log shows that the guardrails ask whether the user has the verb `grant`. So the user makes
one request with this verb and without it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.kubernetes.api import Refused, connect
from gpu_cluster_lab.simulator.control_plane import AUDIT, ControlPlane
from maintenance.roles import requests
from tests.guard import own_name
from tests.proofs.attacks.allowed import allows
from tests.proofs.e2e.project import Project, started
from tests.proofs.e2e.reader import RBAC, ROLES, USER, bind, write_kubeconfig

TRUSTED = "agents-of-the-site"
"""Namespace that the guardrails trust, and that doesn't exist."""
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TRUSTED}}
CREATE = "/api/v1/namespaces?dryRun=All"
LIMIT = 60
"""Seconds until the API server's authorizer must have seen a changed role."""


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

    def refusal(self, monkeypatch: pytest.MonkeyPatch) -> str:
        """Create the trusted namespace as the user, by a dry run; return how that is refused."""

        async def create() -> str:
            async with connect(f"gpu-cluster-{self.project.stack}") as client:
                try:
                    await client.request(
                        "POST", "namespaces", params={"dryRun": "All"}, body=NAMESPACE
                    )
                except Refused as error:
                    return error.message
            return ""

        with monkeypatch.context() as patch:
            patch.setenv("KUBECONFIG", str(self.kubeconfig))
            return asyncio.run(create())

    def set_rules(self, rules: list[dict[str, Any]]) -> None:
        """Give the user's role other rules."""
        path = f"clusterroles/{role()['metadata']['name']}"
        body = {**role(), "rules": rules}
        self.project.request("PUT", path, base=f"/apis/{RBAC}", body=body)


def role() -> dict[str, Any]:
    return dict(yaml.safe_load((ROLES / "deploy.yaml").read_text()))


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    project = Project.make(tmp_path, own_name("role"))
    project.environment[AUDIT] = "1"
    guardrails = {"mode": "enforce", "infrastructureNamespaces": [TRUSTED]}
    project.edit(lambda cluster: cluster.update(guardrails=guardrails))
    with started(project):
        bind(project, role())
        path = tmp_path / "kubeconfig"
        write_kubeconfig(project, path)
        yield Deployment(project, path)


@pytest.mark.full
def test_a_stack_goes_up_and_down_with_the_deploy_role_alone(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment.pulumi("stack", "init", deployment.project.stack)
    up = deployment.pulumi(
        "up", "--yes", "--skip-preview", "--policy-pack", "components/gpu_cluster/guardrails/pack"
    )
    assert "could not inspect everything" not in up
    gpus = json.loads(deployment.pulumi("stack", "output", "--json"))["gpus"]
    assert gpus == {"declared": 32, "computed": 0, "simulated": 32, "deferred": 0}
    deployment.pulumi("preview", "--expect-no-changes")

    assert deployment.refusal(monkeypatch) == ""
    whole = role()["rules"]
    deployment.set_rules([rule for rule in whole if "grant" not in rule["verbs"]])
    end = time.monotonic() + LIMIT
    while not (refusal := deployment.refusal(monkeypatch)) and time.monotonic() < end:
        time.sleep(0.2)
    assert "gpu-rules-grants" in refusal
    deployment.set_rules(whole)
    while deployment.refusal(monkeypatch) and time.monotonic() < end + LIMIT:
        time.sleep(0.2)
    deployment.pulumi("destroy", "--yes", "--skip-preview")

    events = deployment.events()
    refused = {
        f"{event['verb']} {event['requestURI']}"
        for event in events
        if event["responseStatus"]["code"] == 403 and event["requestURI"] != CREATE
    }
    assert refused == set()
    asked = requests(map(json.dumps, events))
    assert len(asked) > 30
    assert {request for request in asked if not allows(role(), request)} == set()
