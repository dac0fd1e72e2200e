"""Fixtures that run the real Pulumi engine on small programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fixtures.programs import run_program
from tests.proofs.rules.previews import Preview, Run

ROOT = Path(__file__).parents[3]
SOURCES = (ROOT / "components", ROOT / "policies")
PACK = ROOT / "components" / "gpu_cluster" / "guardrails" / "pack"
LIMIT = 120
"""Time limit of one command in seconds."""

PROGRAM = '''
"""Declares manifests.json; each object carries a value that is not known at preview."""
import json
import os
import pulumi
import pulumi_command as command
import pulumi_kubernetes as k8s

if pulumi.Config("rules").get_bool("hold"):
    from gpu_cluster.desired.resolve import resolve
    from gpu_cluster.loading.loader import load
    from gpu_rules.guard import enforce
    enforce(resolve(load(pulumi.Config("gpu-cluster").require_object("cluster")), "dev").rules)
provider = k8s.Provider("files", render_yaml_to_directory="rendered")
later = command.local.Command("later", create="echo later")


def secrets(value):
    if isinstance(value, dict):
        if "fn::secret" in value:
            return pulumi.Output.secret(value["fn::secret"])
        return {key: secrets(item) for key, item in value.items()}
    return [secrets(item) for item in value] if isinstance(value, list) else value


def declare(name, manifest):
    manifest = dict(manifest)
    group, kind = manifest["apiVersion"], manifest["kind"]
    if kind == "List":
        for index, item in enumerate(manifest["items"]):
            declare(f"{name}-{index}", item)
    elif group == "command/remote":
        del manifest["apiVersion"], manifest["kind"]
        props = {**secrets(manifest), "triggers": [later.stdout]}
        pulumi.CustomResource("command:remote:Command", name, props)
    elif group == "helm.sh/v3":
        del manifest["apiVersion"], manifest["kind"]
        props = {**manifest, "compat": "true", "status": None, "description": later.stdout}
        options = pulumi.ResourceOptions(provider=cluster)
        pulumi.CustomResource("kubernetes:helm.sh/v3:Release", name, props, options)
    else:
        labels = manifest.get("metadata", {}).get("labels", {})
        metadata = {**manifest.get("metadata", {}), "labels": {**labels, "later": later.stdout}}
        token = f"kubernetes:{'core/v1' if group == 'v1' else group}:{kind}"
        options = pulumi.ResourceOptions(provider=provider)
        pulumi.CustomResource(token, name, {**manifest, "metadata": metadata}, options)


declared = json.load(open("manifests.json"))
if "helm.sh" in json.dumps(declared):
    cluster = k8s.Provider("cluster", kubeconfig=json.dumps(NO_CLUSTER))
for each, content in declared.items():
    declare(each, content)
'''
NO_CLUSTER = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "none",
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "none", "user": {}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
}


@pytest.fixture
def preview(pulumi_env: dict[str, str], tmp_path: Path) -> Run:
    """Return a function that previews a program with some manifests and the policy pack."""

    def run(
        manifests: Mapping[str, Any],
        *,
        cluster: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        held_by: str = "the pack",
    ) -> Preview:
        project = {
            "name": "rules",
            "runtime": {"name": "python", "options": {"virtualenv": sys.prefix}},
        }
        (tmp_path / "Pulumi.yaml").write_text(yaml.safe_dump(project))
        (tmp_path / "__main__.py").write_text(f"NO_CLUSTER = {NO_CLUSTER}\n{PROGRAM}")
        (tmp_path / "manifests.json").write_text(json.dumps(manifests))
        stack = tmp_path.name.replace("_", "-")
        _pulumi(["stack", "init", stack], tmp_path, pulumi_env)
        if cluster is not None:
            file = tmp_path / f"Pulumi.{stack}.yaml"
            document = yaml.safe_load(file.read_text()) if file.exists() else {}
            hold = held_by == "the program"
            document["config"] = {"gpu-cluster:cluster": cluster, "rules:hold": hold}
            file.write_text(yaml.safe_dump(document))
        arguments = ["preview"]
        if held_by == "the pack":
            arguments += ["--policy-pack", str(PACK)]
        if settings is not None:
            file = tmp_path / "pack.json"
            file.write_text(json.dumps({"gpu-rules-mandatory": settings}))
            arguments += ["--policy-pack-config", str(file)]
        own = {"PYTHONPATH": os.pathsep.join(map(str, SOURCES))} if held_by == "the program" else {}
        done = _pulumi(arguments, tmp_path, pulumi_env | own)
        return Preview(done.returncode, done.stdout)

    return run


def _pulumi(
    arguments: Sequence[str], folder: Path, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return run_program(
        ["pulumi", *arguments, "--non-interactive", "--color=never"],
        cwd=folder,
        env=dict(env),
        stderr=subprocess.STDOUT,
        timeout=LIMIT,
    )
