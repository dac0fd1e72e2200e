"""A site installs wheels, writes its repository, and brings a stack up without a clone.

HOME and the site's folder are empty at first. The toolchain's cache is a folder of the test's own,
which shares the tools of this machine. The packages of others are those of this environment.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_cluster.commands.files import ROOT
from gpu_cluster.commands.verbs import BY_NAME, VERBS
from tests.policies.check.samples import BAD
from tests.proofs.install.conftest import CLONE, FILES, PACKAGES, UP
from tests.proofs.install.site import WRITTEN, Site, last

CLONED = ("import sys, gpu_cluster, gpu_cluster_lab, gpu_rules\n"
          "print([m.__file__ for m in (gpu_cluster, gpu_cluster_lab, gpu_rules)])\n"
          f"open({str(ROOT / 'LICENSE')!r})")  # fmt: skip
"""Prints where the packages are, and opens a file of the clone, which must be seen."""
PREVIEW = (
    'eval "$(venv/bin/gpu-cluster env)" && pulumi preview '
    '--policy-pack "$(venv/bin/gpu-cluster policy-pack)"'
)
OWN = f"""
import pulumi, pulumi_kubernetes as k8s, yaml
own = k8s.Provider("own", context="gpu-cluster-dev")
bad = yaml.safe_load({BAD!r})
k8s.core.v1.Pod("bad", metadata=bad["metadata"], spec=bad["spec"],
                opts=pulumi.ResourceOptions(provider=own))
"""
"""What a site adds to its program: a pod that breaks a mandatory rule."""
Record = Callable[[str, object], None]


@pytest.mark.full
@pytest.mark.promise(
    "A site with the wheels alone brings a stack up, and a second run changes nothing."
)
def test_a_site_comes_up_from_wheels_alone(
    site: Site, wheels: dict[str, Path], record_property: Record
) -> None:
    record_property(PACKAGES, len(wheels))
    record_property(FILES, len(WRITTEN))
    first, second = last(site.succeeds("up")), last(site.succeeds("up"))
    assert first.startswith("up: 32 of 32 GPUs simulated, ")
    assert ", 0 resources changed" in second
    record_property(UP, "up 32 of 32 and again 0")


@pytest.mark.full
def test_each_verb_prints_its_help(site: Site) -> None:
    for verb in VERBS:
        done = site.run("gpu-cluster", verb.name, "--help")
        assert done.returncode == 0, verb.name
        assert "Traceback" not in done.stdout + done.stderr, verb.name


@pytest.mark.full
@pytest.mark.parametrize(
    "words",
    [
        ("status",), ("who",), ("images",), ("env",), ("policy-pack",), ("tools",), ("start",),
        ("report",), ("support-bundle", "--only-list"), ("completion", "bash"),
        ("validate", "--nodes", "gpu-1"), ("rules", "list"), ("upgrade-check",), ("upgrade-plan",),
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_a_verb_works_on_the_stack(running: Site, words: tuple[str, ...]) -> None:
    """With a JSON document, unless the verb has none."""
    if BY_NAME[words[0]].has_data:
        assert running.answers(*words)
    else:
        assert running.succeeds(*words)


@pytest.mark.full
@pytest.mark.promise(
    "Plain pulumi works in a site, with the folder of rules that policy-pack prints."
)
def test_plain_pulumi_previews_a_site_without_change(running: Site) -> None:
    running.shell(f"{PREVIEW} --expect-no-changes")


@pytest.mark.full
@pytest.mark.promise("A resource that a site adds to its program is judged by the rules.")
@pytest.mark.parametrize("line", [PREVIEW, "venv/bin/gpu-cluster preview"], ids=["pulumi", "ours"])
def test_a_violation_in_the_program_of_a_site_stops_its_preview(running: Site, line: str) -> None:
    program = running.folder / "__main__.py"
    before = program.read_text()
    try:
        program.write_text(f"{before}{OWN}")
        done = running.shell_out(["sh", "-c", line], "", {})
    finally:
        program.write_text(before)
    assert done.returncode != 0
    assert "GPU001" in done.stdout + done.stderr


@pytest.mark.full
def test_an_edit_is_previewed_and_a_violation_is_stopped(running: Site) -> None:
    file = running.folder / "Pulumi.dev.yaml"
    before = file.read_text()
    try:
        file.write_text(before.replace("gpu-[1-4]", "gpu-[1-3]"))
        assert "GPUs 32 → 24" in running.run("gpu-cluster", "preview").stdout
    finally:
        file.write_text(before)
    (running.folder / "bad.yaml").write_text(BAD)
    done = running.run("gpu-rules", "check", "bad.yaml")
    (running.folder / "bad.yaml").unlink()
    assert done.returncode == 1
    assert "mandatory GPU001" in done.stdout


@pytest.mark.full
def test_the_hook_of_the_site_stops_a_commit_with_a_violation(site: Site, tmp_path: Path) -> None:
    (site.folder / "bad.yaml").write_text(BAD)
    hook = f"'{sys.executable}' -m pre_commit run --files bad.yaml"
    try:
        site.shell("git init -q . && git add bad.yaml .pre-commit-config.yaml")
        done = site.shell_out(["sh", "-c", hook], "", {"PRE_COMMIT_HOME": str(tmp_path)})
    finally:
        (site.folder / "bad.yaml").unlink()
        shutil.rmtree(site.folder / ".git", ignore_errors=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "mandatory GPU001" in done.stdout


@pytest.mark.full
def test_nothing_of_the_clone_is_used(running: Site, record_property: Record) -> None:
    """No program of the site's Python opened a file of the clone, from `init` to `up`."""
    opened = running.opened.read_text().splitlines() if running.opened.exists() else []
    assert opened == []
    done = running.run("python", "-c", CLONED)
    assert str(ROOT) not in done.stdout
    assert running.opened.read_text().splitlines() == [str(ROOT / "LICENSE")]
    running.opened.unlink()
    state = running.run("gpu-cluster", "env").stdout
    assert str(ROOT) not in state
    texts = [path.read_text() for path in running.folder.glob("*") if path.is_file()]
    assert not any(str(ROOT) in text for text in texts)
    record_property(CLONE, len(opened))
