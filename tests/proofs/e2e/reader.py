"""A user of an embedded cluster who has the committed roles for previews, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.proofs.e2e.project import Project

ROLES = Path(__file__).resolve().parents[3] / "policies" / "roles"
RBAC = "/apis/rbac.authorization.k8s.io"


@contextmanager
def reading_user(project: Project, kubeconfig: Path, context: str = "") -> Iterator[None]:
    """Create the user while the context is open, and write a kubeconfig for this user.

    Args:
        project: A project whose embedded cluster runs.
        kubeconfig: Path of the kubeconfig to write.
        context: Name of its context. Empty: the name of the embedded cluster's context.
    """
    made = []
    for declared in yaml.safe_load_all((ROLES / "preview.yaml").read_text()):
        namespace = declared["metadata"].get("namespace")
        if namespace not in (None, "nvidia-device-plugin"):
            continue  # Skip the Roles of platforms that this stack doesn't use.
        kind = declared["kind"]
        place = f"namespaces/{namespace}/" if namespace else ""
        subject = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
        binding = {
            **declared,
            "kind": f"{kind}Binding",
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": RBAC[6:], "kind": kind, "name": "reader"},
            "subjects": [subject],
        }
        del binding["rules"]
        role = {**declared, "metadata": {"name": "reader"}}
        for resource, body in ((f"{kind.lower()}s", role), (f"{kind.lower()}bindings", binding)):
            project.request("POST", f"{place}{resource}", base=RBAC, body=body)
            made.append(f"{place}{resource}/reader")
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
    kubeconfig.write_text(yaml.safe_dump(document))
    try:
        yield
    finally:
        for place in made:
            project.request("DELETE", place, base=RBAC)
