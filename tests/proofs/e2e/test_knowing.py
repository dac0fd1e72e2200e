"""The verbs status, who and support-bundle of a deployed stack, as a preview's user.

The stack file names a context of its own, so the commands use a kubeconfig whose user has the roles
of previews and nothing else, and an SSH key that can only run the probe. Secrets are hidden
wherever a user may have put them: in the stack file, in this command's environment, in a pod's
environment, arguments, annotations and log, and in a node's annotations.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.commands.probe_key import PLACE, authorized_line, make
from gpu_cluster.commands.utilization import GROUP, METRIC
from gpu_cluster.hosts.observed.probe import probe
from gpu_rules.kube.gpu_resources import GPU
from tests.commands.metrics import VERSIONS
from tests.fixtures.programs import run_program
from tests.proofs.e2e.metrics_adapter import adapter
from tests.proofs.e2e.project import LIMIT, Project, figures, verb_words
from tests.proofs.e2e.reader import PLUGIN, RBAC, USER, reading_user

pytestmark = pytest.mark.full

CANARY = "canary-f00d5a1ad"
MERGE = "application/merge-patch+json"
LABEL = "nvidia.com/gpu"


@dataclass(frozen=True)
class Site:
    """A deployed stack, and the variables of a user who may only read."""

    project: Project
    variables: dict[str, str]

    def run(self, command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a verb with JSON=1; standard output has only its document."""
        words, variables = verb_words(command, more)
        return run_program(
            ["venv/bin/python", "-m", "gpu_cluster.commands", *words],
            cwd=self.project.root,
            env={**self.project.environment, **self.variables, "JSON": "1", **variables},
            timeout=LIMIT,
        )


def hiding_pod(name: str, node: str, gpus: int) -> dict[str, Any]:
    """Return a pod with a secret in each field that a user may put one into."""
    container = {
        "name": "main",
        "image": "train",
        "env": [{"name": "TOKEN", "value": CANARY}],
        "args": [f"--password={CANARY}"],
        "command": ["sh", "-c", f"echo {CANARY}"],
        "resources": {"limits": {GPU: str(gpus)}} if gpus else {},
    }
    spec = {"nodeName": node, "tolerations": [{"operator": "Exists"}], "containers": [container]}
    return {"metadata": {"name": name, "annotations": {"example.com/key": CANARY}}, "spec": spec}


@pytest.fixture(scope="module")
def site(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    assert figures(project.up())[:2] == (32, 32)
    folder = tmp_path_factory.mktemp("reader")
    key = make(folder / "probe")
    line = authorized_line(key.export_public_key().decode().strip(), "root")
    for host in ("gpu-1", "gpu-2"):
        root = project.host_root(host)
        script = root / PLACE.lstrip("/")
        script.parent.mkdir(parents=True)
        script.write_text(probe())
        with (root / "run/gpu-cluster-ssh/authorized_keys").open("a") as file:
            file.write(f"{line}\n")
    pods = {"namespaces/default/pods": hiding_pod("train", "gpu-4", 8),
            f"namespaces/{PLUGIN}/pods": hiding_pod("debug", "gpu-3", 0)}  # fmt: skip
    for place, body in pods.items():
        project.request("POST", place, body=body)
    annotated = {"metadata": {"annotations": {"example.com/key": CANARY}}}
    project.request("PATCH", "nodes/gpu-1", body=annotated, content_type=MERGE)
    kept = project.read()
    variables = {
        "KUBECONFIG": str(folder / "kubeconfig"),
        "GPU_CLUSTER_PROBE_KEY_FILE": str(folder / "probe"),
        "PULUMI_CONFIG_PASSPHRASE": CANARY,
        "AWS_SECRET_ACCESS_KEY": CANARY,
    }
    try:
        with reading_user(project, folder / "kubeconfig", "reader"):
            project.edit(lambda cluster: cluster["kubernetes"].update(context="reader"),
                         hardware=False)  # fmt: skip
            yield Site(project, variables)
    finally:
        project.write(kept)
        for place, body in pods.items():
            project.request("DELETE", f"{place}/{body['metadata']['name']}")
        assert project.command("destroy").returncode == 0


@pytest.mark.promise("`gpu-cluster status` needs no right but those of a preview.")
def test_status_is_clean_after_up_and_names_what_somebody_changed(site: Site) -> None:
    clean = site.run("status")
    assert clean.returncode == 0, clean.stdout + clean.stderr
    document = json.loads(clean.stdout)
    assert (document["command"], document["outcome"]) == ("status", "unchanged")
    assert "32 of 32 GPUs usable" in clean.stderr.splitlines()[-1]
    project = site.project
    changed = {"metadata": {"labels": {LABEL: "false"}}}
    project.request("PATCH", "nodes/gpu-3", body=changed, content_type=MERGE)
    try:
        drifted = site.run("status")
        assert drifted.returncode == 2, drifted.stdout + drifted.stderr
        assert f"drift: node gpu-3: label {LABEL}" in drifted.stderr
        (cluster,) = json.loads(drifted.stdout)["clusters"]
        assert len(cluster["drift"]) == 1
    finally:
        back = {"metadata": {"labels": {LABEL: "true"}}}
        project.request("PATCH", "nodes/gpu-3", body=back, content_type=MERGE)
    assert site.run("status").returncode == 0


@pytest.mark.promise("`gpu-cluster who` needs no right but those of a preview.")
def test_who_names_the_pod_that_holds_the_gpus_of_a_node(site: Site) -> None:
    done = site.run("who")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    nodes = {each["node"]: each for each in found["nodes"]}
    assert found["uninspected"] == []
    assert [each["name"] for each in nodes["gpu-4"]["holders"]] == ["train"]
    assert (nodes["gpu-4"]["free"], nodes["gpu-1"]["free"]) == ({GPU: 0}, {GPU: 8})
    assert CANARY not in done.stdout + done.stderr


def holder(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the pod that holds GPUs of gpu-4, from the document of `gpu-cluster who`."""
    assert done.returncode == 0, done.stderr
    nodes = {each["node"]: each for each in json.loads(done.stdout)["nodes"]}
    (found,) = nodes["gpu-4"]["holders"]
    return {**found, "unmeasured": json.loads(done.stdout)["unmeasured"]}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.promise(
    "`gpu-cluster who` marks pods idle whose GPUs do not compute, where the cluster serves "
    "this metric."
)
def test_who_marks_a_pod_idle_whose_gpus_do_not_compute(
    site: Site, tmp_path: Path, version: str
) -> None:
    before = holder(site.run("who"))
    assert before["unmeasured"] == [f"the cluster does not serve {GROUP}"]
    assert (before["utilization"], before["idle"]) == (None, False)
    with adapter(site.project, tmp_path, version) as server:
        server.amounts = {"default/train": "0", "default/gone": "0"}
        idle = holder(site.run("who"))
        assert idle["unmeasured"] == []
        assert (idle["utilization"]["percent"], idle["idle"]) == (0, True)
        assert server.users == {USER}
        text = site.run("who", JSON="").stdout
        assert f"idle, 0 % used: default/train (8 {GPU})\n" in text
        path = tmp_path / "bundle.tar.gz"
        site.run("support_bundle", FILE=str(path))
        bundled = json.loads(archived(path)["who.json"])
        assert bundled["unmeasured"] == []
        assert sum(each["idle"] for node in bundled["nodes"] for each in node["holders"]) == 1
        server.amounts = {"default/train": "87500m"}
        busy = holder(site.run("who"))
        assert (busy["utilization"]["percent"], busy["idle"]) == (87.5, False)
        server.amounts, server.age = {"default/train": "0"}, 3600
        old = holder(site.run("who"))
        assert not old["idle"]
        assert old["unmeasured"] == [
            "1 × a value of more than 5 min before or after this machine's time"
        ]
    after = holder(site.run("who"))
    assert after["unmeasured"] == before["unmeasured"]


def test_the_right_to_utilization_is_one_rule_of_the_role_of_previews(
    site: Site, tmp_path: Path
) -> None:
    place, base = "clusterroles/reader", f"/apis/{RBAC}"
    role = site.project.request("GET", place, base=base)
    (own,) = (rule for rule in role["rules"] if rule.get("apiGroups") == [GROUP])
    assert (own["resources"], own["verbs"]) == ([f"pods/{METRIC}"], ["get"])
    rest = [rule for rule in role["rules"] if rule != own]
    change = {"base": base, "content_type": MERGE}
    with adapter(site.project, tmp_path, "v1beta2") as server:
        server.amounts = {"default/train": "0"}
        assert holder(site.run("who"))["unmeasured"] == []
        site.project.request("PATCH", place, body={"rules": rest}, **change)
        try:
            refused = holder(site.run("who"))
        finally:
            site.project.request("PATCH", place, body={"rules": role["rules"]}, **change)
    assert not refused["idle"]
    (why,) = refused["unmeasured"]
    assert f'cannot get resource "pods/{METRIC}" in API group "{GROUP}"' in why


def archived(path: Path) -> dict[str, str]:
    """Return the texts of an archive by the name of their file, in the archive's order."""
    texts = {}
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            texts[member.name.rpartition("/")[2]] = file.read().decode()
    return texts


@pytest.mark.promise(
    "The archive of `gpu-cluster support-bundle` holds no secret of the stack file, the "
    "environment or a "
    "pod, and says first what is in it."
)
def test_a_bundle_is_whole_and_holds_no_secret(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    done = site.run("support_bundle", FILE=str(path))
    assert done.returncode == 0, done.stderr
    contents = json.loads(done.stdout)
    assert {each["name"]: each["leftOut"] for each in contents["entries"]} == dict.fromkeys(
        ("versions.json", "stack.yaml", "state.json", "status.json", "who.json", "nodes.json",
         "pods.json", "events.json"), "",
    )  # fmt: skip
    texts = archived(path)
    assert next(iter(texts)) == "contents.json"
    every = "".join(texts.values()) + done.stdout + done.stderr
    assert CANARY not in every
    assert "PRIVATE KEY" not in every
    assert not [each for each in site.project.secrets if each in every]
    pods = {each["name"] for each in json.loads(texts["pods.json"])}
    assert "debug" in pods
    assert "train" not in pods, "pods of users are left out"
    nodes = {each["name"] for each in json.loads(texts["nodes.json"])}
    assert nodes >= {f"gpu-{number}" for number in range(1, 5)}
    assert json.loads(texts["who.json"])["command"] == "who"
    assert json.loads(texts["state.json"])["deployment"]["resources"]


def test_a_bundle_of_a_backend_that_fails_repeats_no_password(site: Site, tmp_path: Path) -> None:
    backend = f"postgres://user:{CANARY}@127.0.0.1:1/state"
    path = tmp_path / "bundle.tar.gz"
    done = site.run("support_bundle", FILE=str(path), PULUMI_BACKEND_URL=backend)
    assert done.returncode == 0, done.stderr
    left = [each for each in json.loads(done.stdout)["entries"] if each["leftOut"]]
    assert [each["name"] for each in left] == ["state.json"]
    assert CANARY not in done.stdout + done.stderr
