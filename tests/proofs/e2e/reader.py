"""Users of an embedded cluster who have committed roles and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.proofs.e2e.project import Json, Project

ROLES = Path(__file__).resolve().parents[3] / "policies" / "roles"
RBAC = "rbac.authorization.k8s.io"
USER = "system:serviceaccount:default:default"
"""Name of the user in audit events: the service account to which roles are bound."""
PLUGIN = "nvidia-device-plugin"
"""Namespace of the platform of the embedded stacks."""


def bind(project: Project, role: Json) -> list[str]:
    """Create a role and its binding to the user; return the paths of both."""
    kind, metadata = role["kind"], role["metadata"]
    place = f"namespaces/{metadata['namespace']}/" if kind == "Role" else ""
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    made = []
    for resource, body in ((f"{kind.lower()}s", role), (f"{kind.lower()}bindings", binding)):
        project.request("POST", f"{place}{resource}", base=f"/apis/{RBAC}", body=body)
        made.append(f"{place}{resource}/{metadata['name']}")
    return made


def write_kubeconfig(project: Project, path: Path, context: str = "") -> None:
    """Write a kubeconfig with which commands log in as the user.

    Args:
        project: A project whose embedded cluster runs.
        path: Path of the kubeconfig to write.
        context: Name of its context. Empty: the name of the embedded cluster's context.
    """
    token = project.request(
        "POST",
        "namespaces/default/serviceaccounts/default/token",
        body={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    )
    document = yaml.safe_load(project.kubeconfig.read_text())
    for user in document["users"]:
        user["user"] = {"token": token["status"]["token"]}
    if context:
        document["contexts"][0]["name"] = document["current-context"] = context
    path.write_text(yaml.safe_dump(document))


@contextmanager
def reading_user(project: Project, kubeconfig: Path, context: str = "") -> Iterator[None]:
    """Give the user the roles of previews while the context is open, and write its kubeconfig.

    The arguments are those of `write_kubeconfig`. Roles for platforms that the stack doesn't use
    are left out.
    """
    made: list[str] = []
    for declared in yaml.safe_load_all((ROLES / "preview.yaml").read_text()):
        if declared["metadata"].get("namespace", PLUGIN) == PLUGIN:
            metadata = {**declared["metadata"], "name": "reader"}
            made += bind(project, {**declared, "metadata": metadata})
    write_kubeconfig(project, kubeconfig, context)
    try:
        yield
    finally:
        for place in made:
            project.request("DELETE", place, base=f"/apis/{RBAC}")
