"""Each exit code in docs/reference/exit-codes.md, by a run of the command that ends with it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from gpu_cluster.commands.probe_key import PLACE, authorized_line
from gpu_cluster.commands.verbs import BY_NAME
from gpu_rules.version import VERSION
from tests.fixtures.programs import run_program
from tests.guard import own_name
from tests.proofs.e2e.project import LIMIT, Project, started

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "exit-codes.md"
ROW = re.compile(r"^\| (`[^|]+`) \|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$", re.MULTILINE)
MERGE = "application/merge-patch+json"
LABEL = "nvidia.com/gpu"
Done = subprocess.CompletedProcess[str]
BARE: dict[str, Any] = {
    "metadata": {"name": "bare"},
    "spec": {
        "nodeName": "gpu-1",
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "c", "image": "train", "resources": {"limits": {LABEL: "4"}}}],
    },
}
"""Pod that no controller creates again: its eviction needs consent."""


def documented() -> set[tuple[str, int]]:
    """Return the commands of the page, each with the codes that the page explains."""
    return {
        (command, code)
        for names, *cells in ROW.findall(PAGE.read_text())
        for command in re.findall(r"`([^`]+)`", names)
        for code, text in enumerate(cells)
        if text.strip()
    }


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with started(Project.make(tmp_path_factory.mktemp("codes"), own_name("codes"))) as made:
        yield made


def run(command: str, **variables: str) -> Callable[[Project], Done]:
    """Return a case that runs a command of the project with some variables."""
    return lambda project: project.command(command, **variables)


def program(module: str, *arguments: str, **variables: str) -> Callable[[Project], Done]:
    """Return a case that runs a module of the project with arguments and variables."""
    return lambda project: run_program(
        ["venv/bin/python", "-m", module, *arguments],
        cwd=project.root,
        env={**project.environment, **variables},
        timeout=LIMIT,
    )


def maintained(name: str, **variables: str) -> Callable[[Project], Done]:
    return program(f"maintenance.{name}", **variables)


def lacks_stack(command: str) -> Callable[[Project], Done]:
    return run(command, STACK="missing")


def after_up(command: str) -> Callable[[Project], Done]:
    """Return a case that deploys the stack and runs the command."""

    def case(project: Project) -> Done:
        project.up()
        return project.command(command)

    return case


def faulty(command: str) -> Callable[[Project], Done]:
    """Return a case that runs a command on a stack file with an unknown setting."""

    def case(project: Project) -> Done:
        kept = project.read()
        project.edit(lambda cluster: cluster.update(poolz=[]), hardware=False)
        try:
            done = project.command(command)
            assert "poolz" in done.stdout
            return done
        finally:
            project.write(kept, hardware=False)

    return case


def begun(*constraints: str) -> Callable[[Project], Done]:
    """Return a case that begins a site in an empty folder, by a file of constraints."""

    def case(project: Project) -> Done:
        folder = project.root / "site"
        folder.mkdir(exist_ok=True)
        (folder / "constraints.txt").write_text("".join(constraints))
        program = [project.root / "venv/bin/python", "-m", "gpu_cluster.commands", "init"]
        options = ["--constraints", "constraints.txt"]
        return run_program([*program, *options], cwd=folder, env=project.environment, timeout=LIMIT)

    return case


def copied_state(project: Project) -> Done:
    """Copy the state for previews into a backend of its own."""
    folder = project.root / "previews"
    folder.mkdir()
    place = {"PREVIEW_BACKEND_URL": f"file://{folder}", "PREVIEW_PASSPHRASE": "of previews"}
    return project.command("preview_state", **place)


def refused_preview(project: Project) -> Done:
    """Preview a change for which a pod would have to be evicted that may not be evicted."""
    kept = project.read()
    project.request("POST", "namespaces/default/pods", body=BARE)
    try:
        project.edit(lambda cluster: cluster.update(runtime={"devicesByEnvironment": True}))
        done = project.command("preview")
        last = done.stdout.splitlines()[-1]
        assert "pods that no controller creates again" in last, done.stdout
        refused = project.command("up")
        assert refused.returncode == 1
        assert "pods that no controller creates again" in refused.stdout.splitlines()[-1]
        return done
    finally:
        project.write(kept)
        project.request("DELETE", "namespaces/default/pods/bare")


def without_hosts(project: Project) -> Done:
    """Show the status of a stack file without the hosts that the last run prepared."""
    kept = project.read()
    project.edit(lambda cluster: cluster.pop("hosts"), hardware=False)
    try:
        done = project.command("status")
        assert (
            "found a host that is no longer declared, while its node stays in pool" in done.stdout
        )
        return done
    finally:
        project.write(kept, hardware=False)


def drifted(project: Project) -> Done:
    """Show the status of a node with a label that somebody else changed."""

    def label(value: str) -> None:
        body = {"metadata": {"labels": {LABEL: value}}}
        project.request("PATCH", "nodes/gpu-3", body=body, content_type=MERGE)

    label("false")
    try:
        return project.command("status")
    finally:
        label("true")


def sick(project: Project) -> Done:
    """Show the status of a node that has lost a GPU."""
    project.fault("gpu-2", "unhealthy-gpus=1")
    try:
        await_gpus(project, "gpu-2", "7")
        done = project.command("status")
        assert "31 of 32 simulated GPUs usable; gpu-2: 1 " in done.stdout.splitlines()[-1], (
            done.stdout
        )
        return done
    finally:
        project.fault("gpu-2")
        await_gpus(project, "gpu-2", "8")


def await_gpus(project: Project, node: str, number: str) -> None:
    deadline = time.monotonic() + LIMIT
    while project.request("GET", f"nodes/{node}")["status"]["allocatable"][LABEL] != number:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def evidence(project: Project) -> Done:
    commands = (
        "openssl genpkey -algorithm ed25519 -out evidence.key",
        "openssl pkey -in evidence.key -pubout -out evidence.pub",
    )
    for command in commands:
        subprocess.run(command.split(), cwd=project.root, check=True, capture_output=True)
    return project.command("evidence", KEY="evidence.key", FILE="evidence.json")


def explained(project: Project) -> Done:
    space = "nvidia-device-plugin"
    pod = project.request("GET", f"namespaces/{space}/pods")["items"][0]
    return project.command("why", POD=f"{space}/{pod['metadata']['name']}")


def comment(project: Project) -> Done:
    shown = project.command("preview", GPU_CLUSTER_CHANGE="change.json")
    assert shown.returncode == 0, shown.stdout
    return project.command("comment", CHANGE="change.json")


def images_with(status: int) -> Callable[[Project], Done]:
    """Return a case that checks the signatures of images by a cosign that ends with a status."""

    def case(project: Project) -> Done:
        folder = project.root / f"cosign-{status}"
        folder.mkdir(exist_ok=True)
        (folder / "cosign").write_text(f"#!/bin/sh\nexit {status}\n")
        (folder / "cosign").chmod(0o755)
        return project.command("images", PATH=f"{folder}{os.pathsep}{os.environ['PATH']}")

    return case


def audit(planted: str) -> Callable[[Project], Done]:
    """Return a case that audits the project, in which no scanner but that for secrets can run."""

    def case(project: Project) -> Done:
        folder, file = project.root / "only-git", project.root / "planted.py"
        folder.mkdir(exist_ok=True)
        with suppress(FileExistsError):
            (folder / "git").symlink_to(shutil.which("git") or "")
        file.write_text(planted)
        for command in ("init --quiet", "add --all"):
            subprocess.run(["git", *command.split()], cwd=project.root, check=True)
        try:
            return maintained("audit", PATH=str(folder))(project)
        finally:
            file.unlink()

    return case


def rules(command: str, manifest: str, *options: str) -> Callable[[Project], Done]:
    def case(project: Project) -> Done:
        file = project.root / "manifest.yaml"
        file.write_text(manifest)
        return program(*command.split(), "check", *options, "manifest.yaml")(project)

    return case


def probed(project: Project) -> Done:
    """Allow the key of the probe on each host, as the command before has told."""
    key = asyncssh.read_private_key(project.root / "probe")
    line = authorized_line(key.export_public_key().decode().strip(), "root")
    for host in ("gpu-1", "gpu-2"):
        root = project.host_root(host)
        script = root / PLACE.lstrip("/")
        script.parent.mkdir(parents=True)
        script.write_text((project.root / "probe.sh").read_text())
        with (root / "run/gpu-cluster-ssh/authorized_keys").open("a") as file:
            file.write(f"{line}\n")
    return project.command("probe_key", FILE="probe")


def adopted(project: Project) -> Done:
    """Adopt the cluster, which no stack manages any more, as another stack."""
    return project.command(
        "adopt",
        STACK="adopted",
        CONTEXT=f"gpu-cluster-{project.stack}",
        KUBECONFIG=str(project.kubeconfig),
        PULUMI_CONFIG_PASSPHRASE="for tests only",
    )


OF_RULES = "gpu_cluster.commands rules"
SOUND = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n"
VIOLATING = """\
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: b}
spec:
  containers:
    - {name: c, image: d, resources: {requests: {nvidia.com/gpu: 1}}}
"""
SECRET = "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3BlbnNzaC1rZXktdjE" * 4 + "\n"

CASES: dict[tuple[str, int], Callable[[Project], Done]] = {
    ("gpu-cluster up", 1): lacks_stack("up"),
    ("gpu-cluster up", 0): run("up"),
    ("gpu-cluster validate", 0): run("validate", NODES="gpu-1"),
    ("gpu-cluster validate", 1): run("validate", NODES="gpu-9"),
    ("gpu-cluster preview", 0): run("preview"),
    ("gpu-cluster preview", 1): refused_preview,
    ("gpu-cluster status", 0): run("status"),
    ("gpu-cluster status", 1): without_hosts,
    ("gpu-cluster status", 2): drifted,
    ("gpu-cluster status", 3): sick,
    ("gpu-cluster evidence", 0): evidence,
    ("gpu-cluster evidence", 1): run("evidence", KEY="no.key"),
    ("gpu-cluster verify-evidence", 0): run(
        "verify_evidence", FILE="evidence.json", PUBLIC="evidence.pub", SIMULATED="1"
    ),
    ("gpu-cluster verify-evidence", 1): run(
        "verify_evidence", FILE="evidence.json", PUBLIC="evidence.pub"
    ),
    ("gpu-cluster upgrade-check", 0): run("upgrade_check"),
    ("gpu-cluster upgrade-check", 1): faulty("upgrade_check"),
    ("gpu-cluster upgrade-plan", 0): run("upgrade_plan"),
    ("gpu-cluster upgrade-plan", 1): faulty("upgrade_plan"),
    ("gpu-cluster init", 1): begun("gpu-cluster==0.0.1 "),
    ("gpu-cluster init", 0): begun(f"gpu-cluster=={VERSION} "),
    ("gpu-cluster support-bundle", 0): run("support_bundle", ONLY_LIST="1"),
    ("gpu-cluster support-bundle", 1): run("support_bundle", FILE="no/such/folder/a.tar.gz"),
    ("gpu-cluster start", 0): run("start"),
    ("gpu-cluster start", 1): lacks_stack("start"),
    ("gpu-cluster env", 0): run("env"),
    ("gpu-cluster env", 1): lacks_stack("env"),
    ("gpu-cluster tools", 0): run("tools", NAMES="pulumi"),
    ("gpu-cluster tools", 1): run("tools", NAMES="pulum"),
    ("gpu-cluster preview-state", 0): copied_state,
    ("gpu-cluster preview-state", 1): lacks_stack("preview_state"),
    ("gpu-cluster preview-secrets", 0): run("preview_secrets"),
    ("gpu-cluster preview-secrets", 1): lacks_stack("preview_secrets"),
    ("gpu-cluster policy-pack", 0): run("policy_pack"),
    ("gpu-cluster completion", 0): run("completion", SHELL="bash"),
    ("gpu-cluster who", 0): run("who"),
    ("gpu-cluster who", 1): lacks_stack("who"),
    ("gpu-cluster why", 0): explained,
    ("gpu-cluster why", 1): run("why", POD="default/none"),
    ("gpu-cluster report", 0): run("report"),
    ("gpu-cluster report", 1): run("report", FILE="no/such/folder/report.html"),
    ("gpu-cluster comment", 0): comment,
    ("gpu-cluster comment", 1): run("comment", CHANGE="no-change.json"),
    ("gpu-cluster host-keys", 0): run("host_keys"),
    ("gpu-cluster host-keys", 1): run("host_keys", HOSTS="gpu-1", CONFIRM="0" * 16),
    ("gpu-cluster images", 0): images_with(0),
    ("gpu-cluster images", 1): images_with(1),
    ("make facts", 0): maintained("facts"),
    ("make facts", 1): maintained("facts", CSAF="no-such-folder"),
    ("make audit", 0): audit(""),
    ("make audit", 1): audit(SECRET),
    ("gpu-rules check", 0): rules("gpu_rules", SOUND),
    ("gpu-rules check", 1): rules("gpu_rules", VIOLATING),
    ("gpu-rules check", 2): rules("gpu_rules", SOUND, "--no-such-option"),
    ("gpu-cluster rules check", 0): rules(OF_RULES, SOUND),
    ("gpu-cluster rules check", 1): rules(OF_RULES, VIOLATING),
    ("gpu-cluster rules check", 2): rules(OF_RULES, SOUND, "--no-such-option"),
    ("gpu-cluster probe-key", 1): run("probe_key", FILE="probe"),
    ("gpu-cluster probe-key", 0): probed,
    ("gpu-cluster new", 0): run(
        "new", STACK="fresh", NODES="gpu-[1-4]", GPUS="8", CONTEXT="my-cluster"
    ),
    ("gpu-cluster new", 1): run("new", STACK="fresh", NODES="gpu-[1-4]", GPUS="8"),
    ("gpu-cluster new", 2): program("gpu_cluster.commands", "new", "--no-such-option"),
    ("gpu-cluster forget", 0): run("forget", HOST="gpu-2"),
    ("gpu-cluster forget", 1): run("forget", HOST="gpu-2"),
    ("gpu-cluster destroy", 1): lacks_stack("destroy"),
    ("gpu-cluster destroy", 0): run("destroy"),
    ("gpu-cluster leave", 1): run("leave", HOSTS="gpu-9"),
    ("gpu-cluster leave", 0): after_up("leave"),
    ("gpu-cluster adopt", 1): run("adopt", STACK="adopted"),
    ("gpu-cluster adopt", 0): adopted,
    ("gpu-cluster down", 1): lacks_stack("down"),
    ("gpu-cluster down", 0): run("down"),
}
"""A run for each code, in an order in which the stack is deployed first and taken away last."""


def test_each_documented_code_has_a_case() -> None:
    assert set(CASES) == documented()


def test_each_verb_has_its_codes_on_the_page() -> None:
    names = {tuple(command.split()[:2]) for command, _ in documented()}
    assert {name for program, name in names if program == "gpu-cluster"} == BY_NAME.keys()


@pytest.mark.full
@pytest.mark.promise("Each command ends with the exit codes that its page documents.")
@pytest.mark.parametrize(("command", "code"), CASES)
def test_a_command_ends_with_its_documented_code(
    deployed: Project, command: str, code: int
) -> None:
    done = CASES[command, code](deployed)
    assert done.returncode == code, f"{done.stdout}\n{done.stderr or ''}"
    assert "Traceback" not in f"{done.stdout}{done.stderr or ''}"
