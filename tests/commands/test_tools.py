"""The verb tools: in a site with the toolchain, and in one that has Pulumi on PATH."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu_cluster.commands import tools
from gpu_cluster.machine.tool import RELEASE, Tool
from gpu_cluster_lab import toolchain

HELM = Tool("helm", "4.2.3", RELEASE, Path("/tools/bin/helm"))


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a Pulumi on PATH in a site without the toolchain."""
    program = tmp_path / "pulumi"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "has_lab", lambda: False)
    return program


def test_without_the_toolchain_pulumi_on_path_is_the_only_tool(
    pulumi: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.main(path="pulumi")
    assert capsys.readouterr().out == f"{pulumi}\n"
    tools.main(bin=True)
    assert capsys.readouterr().out == f"{pulumi.parent}\n"
    tools.main()
    assert capsys.readouterr().out.splitlines()[1].split() == ["pulumi", "PATH", str(pulumi)]
    monkeypatch.setenv("JSON", "1")
    tools.main(names=["pulumi"])
    (listed,) = json.loads(capsys.readouterr().out)["tools"]
    assert listed == {"name": "pulumi", "version": "", "origin": "PATH", "path": str(pulumi)}
    for words in ({"names": ["helm"]}, {"path": "helm"}):
        with pytest.raises(
            SystemExit, match=r"found 'helm'; wanted: pulumi; cure: .*gpu-cluster-lab"
        ):
            tools.main(**words)


def test_the_toolchain_gets_the_names_and_whether_to_look_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def ensure(*names: str, refresh: bool = False) -> dict[str, Tool]:
        asked.append((names, refresh))
        return {"helm": HELM}

    monkeypatch.setattr(toolchain, "ensure", ensure)
    monkeypatch.setattr(toolchain, "bin_dir", lambda: HELM.path.parent)
    tools.main(names=["helm"], refresh=True)
    tools.main(bin=True)
    tools.main(path="helm")
    assert asked == [(("helm",), True), ((), False), (("helm",), False)]
    head, row, *rest = capsys.readouterr().out.splitlines()
    assert (head.split(), row.split()) == (
        ["tool", "version", "origin", "path"],
        ["helm", "4.2.3", "release", str(HELM.path)],
    )
    assert rest == ["/tools/bin", str(HELM.path)]
