"""An upgrade names the changes in settings of the stack, and the lines that must be edited."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu_cluster.change.document import Document, Outcome, Upgrade
from gpu_cluster.change.lines import StackFile
from gpu_cluster.change.text import upgrade_lines
from gpu_cluster.cluster import GpuCluster
from gpu_cluster.commands import upgrade_check
from gpu_cluster.commands.forges.comment_markdown import is_silent, rendered
from gpu_cluster.commands.release_notes import entries, sections, upgrade_of
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.upgrade_check import recorded_version
from gpu_rules.faults import FaultError
from gpu_rules.version import VERSION

TEXT = """# Changelog

## [Unreleased]

### Added

- Something later that changes `devicePlugin.version`.

## [0.3.0] - 2026-03-01

### Changed

- **Breaking** `devicePlugin.version` is the chart's version
  without a leading v ([page](docs/a.md)).
- The default of `pools[].gpusPerNode` is a maximum.
- `dra.version` has another default.
- **Breaking** Python 3.11 is no longer enough.

## [0.2.0] - 2026-02-01

### Fixed

- A fault.

## [0.1.0] - 2026-01-01

### Added

- All of `platform`.
"""
STACK = """config:
  gpu-cluster:cluster:
    version: v1
    kubernetes: {context: gpu-cluster-dev}
    platform: device-plugin
    devicePlugin:
      version: 0.20.0
    pools:
      - {name: a100, nodes: ["gpu-[1-4]"], gpusPerNode: 8}
"""


@pytest.fixture
def file(tmp_path: Path) -> StackFile:
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text(STACK)
    return StackFile.read(path)


def test_an_upgrade_lists_breaking_changes_and_those_in_settings_of_the_stack(
    file: StackFile,
) -> None:
    upgrade = upgrade_of("0.1.0", "0.3.0", file, TEXT)
    assert upgrade is not None
    assert [(note.breaking, note.here) for note in upgrade.notes] == [
        (True, ("Pulumi.dev.yaml:7",)),
        (False, ("Pulumi.dev.yaml:9",)),
        (True, ()),
    ]
    assert upgrade.notes[0].text == (
        "`devicePlugin.version` is the chart's version without a leading v (page)."
    )
    assert upgrade.others == 2


def test_only_releases_after_the_deployed_one_up_to_the_installed_one_count(
    file: StackFile,
) -> None:
    assert upgrade_of("0.1.0", "0.2.0", file, TEXT) == Upgrade(was="0.1.0", now="0.2.0", others=1)
    assert upgrade_of("0.3.0", "0.3.0", file, TEXT) is None
    assert upgrade_of("", "0.3.0", file, TEXT) is None
    assert upgrade_of("a fork", "0.3.0", file, TEXT) is None


def test_an_older_version_says_that_its_change_log_is_older(file: StackFile) -> None:
    upgrade = upgrade_of("0.3.0", "0.1.0", file, TEXT)
    assert upgrade == Upgrade(was="0.3.0", now="0.1.0", back=True)


def test_preview_and_comment_show_the_upgrade(file: StackFile) -> None:
    document = Document(
        stack="dev", outcome=Outcome.UNCHANGED, upgrade=upgrade_of("0.1.0", "0.3.0", file, TEXT)
    )
    lines = list(upgrade_lines(document))
    assert lines[0].startswith("breaking in gpu-cluster: `devicePlugin.version` is the chart's")
    assert lines[0].endswith("(Pulumi.dev.yaml:7)")
    assert lines[-1] == (
        "gpu-cluster 0.1.0 → 0.3.0: 2 changes in settings of this stack, 2 breaking, "
        "2 more in CHANGELOG.md"
    )
    text = rendered(Document.read(document.write()))
    assert "**gpu-cluster `0.1.0` → `0.3.0`: 2 changes in settings" in text
    assert "Pulumi.dev.yaml:7" in text
    assert not is_silent(document)


def test_the_change_log_of_this_release_is_in_the_package_and_has_entries() -> None:
    from gpu_cluster.commands.release_notes import FILE

    every = [
        entry
        for _, section in sections(FILE.read_text(encoding="utf-8")).values()
        for entry in entries(section)
    ]
    assert len(every) > 10
    assert all(entry.text for entry in every)


def state(version: str) -> list[dict[str, object]]:
    outputs = {"version": version, "settings": "{}"}
    return [
        {"type": "pulumi:pulumi:Stack", "urn": "urn:pulumi:dev::gpu-cluster::a::b"},
        {
            "type": GpuCluster.TYPE,
            "urn": f"urn:pulumi:dev::gpu-cluster::{GpuCluster.TYPE}::gpu-cluster",
            "outputs": outputs,
        },
    ]


def test_the_state_names_the_version_of_the_last_run() -> None:
    assert recorded_version(state("0.1.0")) == "0.1.0"
    assert recorded_version([]) == ""


def test_a_stack_file_that_does_not_load_is_shown_with_the_line_to_edit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "state" / ".pulumi" / "stacks" / "gpu-cluster"
    folder.mkdir(parents=True)
    latest = {"latest": {"resources": state("0.0.9")}}
    (folder / "dev.json").write_text(json.dumps({"version": 3, "checkpoint": latest}))
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(STACK.replace("      version: 0.20.0", "      chartVersion: 0.17.1"))
    monkeypatch.setenv("STACK", "dev")
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}/state")
    monkeypatch.setattr(Stack, "file", property(lambda stack: file))
    with pytest.raises(SystemExit, match=r"Pulumi\.dev\.yaml must be edited"):
        upgrade_check.main()
    printed = capsys.readouterr().out
    assert "to edit: devicePlugin.chartVersion (line 7): found an unknown key" in printed, printed
    assert f"gpu-cluster 0.0.9 → {VERSION}: " in printed


def test_an_unknown_version_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(STACK)
    monkeypatch.setattr(Stack, "file", property(lambda stack: file))
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://bucket")
    with pytest.raises(FaultError, match="name it with --since"):
        upgrade_check.main()
    upgrade_check.main(since=VERSION)
    assert "nothing to upgrade" in capsys.readouterr().out
