"""What people do with a deployed stack works in a site: look, hand over, bring a state back."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands.evidence.forged import write_keys
from tests.policies.check.samples import BAD
from tests.proofs.install.site import (
    Site,
    ask,
    install,
    kubeconfig,
    last,
    make_cache,
    make_site,
    pulumi_path,
    real_stack,
)

pytestmark = pytest.mark.full

Json = dict[str, Any]
CONTEXT = "gpu-cluster-dev"
UNCHANGED = re.compile(r"preview: \d+ same; ")
POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "containers": [
            {
                "name": "train",
                "image": "example.com/train:1",
                "resources": {"limits": {"nvidia.com/gpu": 64}},
            }
        ],
    },
}


def pods(site: Site) -> set[str]:
    """Return the UIDs of the device plugin's pods."""
    path = "namespaces/nvidia-device-plugin/pods"
    listed = ask(site, lambda client: client.request("GET", path))
    return {item["metadata"]["uid"] for item in listed["items"]}


def test_why_and_who_say_what_a_waiting_pod_lacks(running: Site) -> None:
    create = "namespaces/default/pods"
    ask(running, lambda client: client.request("POST", create, body=POD))
    try:
        text = running.succeeds("why", "default/train")
        assert running.answers("why", "default/train")
        assert "64" in text
        assert "nvidia.com/gpu" in text
        assert "0 of 32 held" in last(running.succeeds("who"))
    finally:
        ask(running, lambda client: client.request("DELETE", f"{create}/train"))


def test_an_edit_has_its_comment(running: Site) -> None:
    file = running.folder / "Pulumi.dev.yaml"
    before = file.read_text()
    try:
        file.write_text(before.replace("gpu-[1-4]", "gpu-[1-3]"))
        shown = running.answers("preview", "--file", "change.json")
        assert shown["gpus"]["after"] == 24, shown
        text = running.succeeds("comment", "--change", "change.json")
    finally:
        file.write_text(before)
        (running.folder / "change.json").unlink(missing_ok=True)
    assert "32 → 24 GPUs" in text
    assert "`pools[a100].nodes`" in text


def test_evidence_is_signed_and_verified(running: Site) -> None:
    write_keys(running.folder)
    running.answers("evidence", "--key", "evidence.key")
    file = ("--file", "evidence-dev.json", "--public", "evidence.pub", "--simulated")
    assert "holds" in last(running.succeeds("verify-evidence", *file))
    assert running.answers("verify-evidence", *file)
    for name in ("evidence.key", "evidence.pub", "evidence-dev.json"):
        (running.folder / name).unlink()


@pytest.mark.promise(
    "A state that was lost comes back from the copy that a run kept, with its passphrase."
)
def test_state_and_passphrase_come_back_from_their_copies(running: Site) -> None:
    cache = Path(running.environment["GPU_CLUSTER_CACHE"])
    backend = cache / "embedded" / "state" / ".pulumi"
    state = backend / "stacks" / "gpu-cluster" / "dev.json"
    passphrase, salt = cache / "passphrase", cache / "embedded" / "dev.salt"
    kept = passphrase.read_text(), salt.read_text()
    running.succeeds("up")
    copies = sorted((backend / "copies" / "gpu-cluster" / "dev").iterdir())
    assert copies
    state.unlink()
    passphrase.write_text("another\n")
    lost = running.run("gpu-cluster", "preview")
    assert not UNCHANGED.match(last(lost.stdout))
    state.unlink(missing_ok=True)
    passphrase.write_text(kept[0])
    salt.write_text(kept[1])
    running.shell(
        'eval "$(venv/bin/gpu-cluster env)" && (pulumi stack init dev || true) && '
        f"pulumi stack import --file '{copies[-1]}'"
    )
    # The engine wrote the salt of the new stack into the file.
    restore_file(running)
    assert UNCHANGED.match(last(running.succeeds("preview")))


def restore_file(site: Site) -> None:
    """Remove the engine's salt from the stack file of the embedded stack."""
    file = site.folder / "Pulumi.dev.yaml"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if not line.startswith("encryptionsalt")))


@pytest.mark.promise("A site hands a running cluster back, and takes it over, without a restart.")
def test_a_cluster_is_handed_back_and_taken_over_without_a_restart(
    running: Site, tmp_path: Path
) -> None:
    before = pods(running)
    assert before
    assert "the whole stack handed back" in last(running.succeeds("leave"))
    real = real_stack(running, tmp_path)
    begun = (running.folder / "Pulumi.lab.yaml").read_text()
    running.answers("adopt", "--stack", "lab", "--context", CONTEXT, **real)
    done = last(running.succeeds("up", "--stack", "lab", **real))
    assert done.startswith("up: 32 of 32 GPUs simulated, "), done
    assert ", 0 resources changed" in last(running.succeeds("up", "--stack", "lab", **real))
    assert "nothing to do" in last(running.succeeds("status", "--stack", "lab", **real))
    assert running.answers("leave", "--stack", "lab", **real)
    assert pods(running) == before
    (running.folder / "Pulumi.lab.yaml").write_text(begun)
    assert running.answers("down")


@pytest.mark.promise(
    "Plain pulumi previews, creates, refreshes and destroys a stack in a site without the lab."
)
def test_pulumi_by_itself_brings_a_stack_up_and_takes_it_down(
    site: Site, address: str, tmp_path: Path
) -> None:
    text = (site.folder / "Pulumi.dev.yaml").read_text().partition("    hosts:")[0]
    (site.folder / "Pulumi.plain.yaml").write_text(text.replace("-dev}", "-plain}"))
    site.succeeds("start", "--stack", "plain")
    alone = make_site(tmp_path / "alone", make_cache(tmp_path / "cache"))
    try:
        install(alone.venv, address, ("gpu-rules", "gpu-cluster"))
        for name in ("Pulumi.yaml", "__main__.py"):
            (alone.folder / name).write_text((site.folder / name).read_text())
        text = (site.folder / "Pulumi.plain.yaml").read_text()
        (alone.folder / "Pulumi.prod.yaml").write_text(text)
        (tmp_path / "state").mkdir()
        more = real_stack(site, tmp_path) | {
            "KUBECONFIG": str(kubeconfig(site, "plain")),
            "PULUMI_BACKEND_URL": f"file://{tmp_path}/state",
            "PULUMI_STACK": "prod",
            "PATH": pulumi_path(alone),
            # Where no release of Pulumi's plugins can be reached, the toolchain's own run with the
            # Python of this environment, in place of official ones.
            "GPU_CLUSTER_PYTHON": sys.executable,
        }
        pack = '--policy-pack "$(gpu-cluster policy-pack)"'
        alone.shell("pulumi stack init prod", **more)
        assert "32" in alone.shell(f"pulumi preview {pack}", **more)
        alone.shell(f"pulumi up --yes --skip-preview {pack}", **more)
        gpus = json.loads(alone.shell_out(["pulumi", "stack", "output", "gpus", "--json"], "", more)
                          .stdout)  # fmt: skip
        assert gpus["simulated"] == 32
        alone.shell(f"pulumi up --yes --expect-no-changes {pack}", **more)
        alone.shell("pulumi refresh --yes --expect-no-changes", **more)
        alone.shell("pulumi destroy --yes", **more)
        left = ask(site, lambda client: client.request("GET", "namespaces"), "plain")
        names = {item["metadata"]["name"] for item in left["items"]}
        assert "nvidia-device-plugin" not in names
    finally:
        done = site.run("gpu-cluster", "down", "--stack", "plain")
        (site.folder / "Pulumi.plain.yaml").unlink()
    assert done.returncode == 0, done.stderr


def test_the_rules_work_alone(address: str, tmp_path: Path) -> None:
    alone = make_site(tmp_path / "rules", tmp_path / "none")
    install(alone.venv, address, ("gpu-rules",))
    (alone.folder / "bad.yaml").write_text(BAD)
    done = alone.run("gpu-rules", "check", "bad.yaml")
    assert (done.returncode, "mandatory GPU001" in done.stdout) == (1, True), done.stderr
    assert alone.run("python", "-c", "import gpu_cluster").returncode == 1


def test_the_file_of_a_new_stack_is_written_for_the_one_that_init_began(site: Site) -> None:
    file = site.folder / "Pulumi.prod.yaml"
    begun = file.read_text()
    words = ("--nodes", "gpu-[1-4]", "--gpus", "8", "--context", "my-cluster")
    assert site.answers("new", "--stack", "prod", *words)["gpus"] == 32
    assert "my-cluster" in file.read_text()
    file.write_text(begun)
