"""The real Pulumi engine deploys, changes and removes guardrails on a real API server.

Guardrails are the admission policies with the GPU rules, and quotas for GPUs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from lab.benchmarks.api_server import ApiServer, await_true, make_namespace
from tests.fixtures.documents import stack_document
from tests.fixtures.programs import run_program
from tests.policies.admission.cluster import GPU, create

PROGRAM = """
import pulumi
import pulumi_kubernetes as k8s
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.loader import load
from gpu_cluster.guardrails.component import Guardrails, GuardrailsArgs
from gpu_rules.guard import enforce
from tests.desired_host import guarded

cluster = load(pulumi.Config("gpu-cluster").require_object("cluster"))
enforce(resolve(cluster, "dev").rules)
provider = k8s.Provider("kubernetes", kubeconfig=open("kubeconfig").read())
args = guarded(cluster)
Guardrails("guardrails", args, pulumi.ResourceOptions(providers=[provider]))
"""
ROOT = Path(__file__).parents[3]
LIMIT = 400
"""Time limit of one command in seconds; the first command also starts the provider plugin."""
OURS = "labelSelector=app.kubernetes.io/managed-by=gpu-cluster"
GROUP = "/apis/admissionregistration.k8s.io/v1"


class Stack:
    """A stack of a Pulumi program that declares only guardrails."""

    def __init__(self, folder: Path, env: Mapping[str, str], server: ApiServer) -> None:
        self.folder = folder
        self.env = {**env, "PYTHONPATH": str(ROOT)}
        project = {
            "name": "guardrails",
            "runtime": {"name": "python", "options": {"virtualenv": sys.prefix}},
        }
        (folder / "Pulumi.yaml").write_text(yaml.safe_dump(project))
        (folder / "__main__.py").write_text(PROGRAM)
        (folder / "kubeconfig").write_text(server.kubeconfig.read_text())
        self.run("stack", "init", "test")

    def run(self, *arguments: str) -> str:
        done = run_program(
            ["pulumi", *arguments, "--non-interactive", "--color=never"],
            cwd=self.folder,
            env=self.env,
            stderr=subprocess.STDOUT,
            timeout=LIMIT,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def up(self, gpus: int = 8, *extra: str, **guardrails: Any) -> str:
        cluster = stack_document(
            context="test",
            pools=[{"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": gpus}],
            guardrails=guardrails,
        )
        file = self.folder / "Pulumi.test.yaml"
        document = yaml.safe_load(file.read_text()) if file.exists() else {}
        document["config"] = {"gpu-cluster:cluster": cluster}
        file.write_text(yaml.safe_dump(document))
        return self.run("up", "--yes", "--skip-preview", *extra)


def pod(gpus: int) -> dict[str, Any]:
    resources = {"limits": {GPU: gpus}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team"},
        "spec": {
            "containers": [{"name": "cuda", "image": "cuda:13.0", "resources": resources}],
            "tolerations": [{"key": GPU, "operator": "Exists"}],
        },
    }


def ours(api: httpx.Client) -> list[str]:
    """Return the names of all objects that the stack has created in the cluster."""
    names = []
    for path in (
        f"{GROUP}/validatingadmissionpolicies",
        f"{GROUP}/validatingadmissionpolicybindings",
        "/api/v1/resourcequotas",
    ):
        answer = api.get(f"{path}?{OURS}")
        names += [item["metadata"]["name"] for item in answer.json()["items"]]
    return names


@pytest.mark.full
def test_guardrails_come_change_and_go(
    alone: ApiServer, pulumi_env: dict[str, str], tmp_path: Path
) -> None:
    api = alone.client
    make_namespace(api, "team")
    stack = Stack(tmp_path, pulumi_env, alone)
    quotas = [{"namespace": "team", "resources": {GPU: 4}}]

    stack.up(mode="enforce", quotas=quotas)
    # The quota of 4 GPUs also denies this pod, and the API server may check the quota first.
    await_true("enforced", lambda: create(api, pod(9)).rules == {"GPU007"})
    assert create(api, pod(1)).taken
    await_true("quota counted", lambda: "exceeded quota" in create(api, pod(5)).text)

    output = stack.up(8, "--expect-no-changes", mode="enforce", quotas=quotas)
    assert "unchanged" in output

    # The policies contain the number of GPUs per node, so a larger number changes the policies.
    stack.up(16, mode="enforce", quotas=[])
    await_true("larger nodes", lambda: create(api, pod(16)).taken)
    assert create(api, pod(17)).rules == {"GPU007"}

    stack.up(16, mode="warn")
    await_true("warned", lambda: create(api, pod(17)).status == 201)
    assert create(api, pod(17)).rules == {"GPU007", "GPU049", "GPU050"}

    stack.run("destroy", "--yes", "--skip-preview")
    assert ours(api) == []
    await_true("policies gone", lambda: create(api, pod(17)).text.strip() == "")
