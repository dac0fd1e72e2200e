"""Commands with `EMBEDDED=1` never change the state of the real stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import stack as stacks
from commands.contexts import require_own_state
from commands.stack import Stack
from policies.faults import FaultError

FILE = """\
config:
  gpu-cluster:cluster:
    version: v1
    kubernetes: {context: CONTEXT}
    platform: device-plugin
    pools: [{name: a100, nodes: ["gpu-[1-4]"], gpusPerNode: 8}]
"""


def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: str) -> Stack:
    (tmp_path / "Pulumi.lab.yaml").write_text(FILE.replace("CONTEXT", context))
    monkeypatch.setattr(stacks, "ROOT", tmp_path)
    monkeypatch.setenv("STACK", "lab")
    return Stack.current()


@pytest.mark.promise("`make down` with `EMBEDDED=1` never destroys the real stack.")
def test_a_substitute_changes_no_state_of_a_named_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDDED", "1")
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///real")
    lab = made(tmp_path, monkeypatch, "a-real-one")
    with pytest.raises(FaultError, match="EMBEDDED=1 STACK=lab: found PULUMI_BACKEND_URL"):
        require_own_state(lab)


@pytest.mark.parametrize(
    ("context", "embedded", "backend"),
    [
        ("a-real-one", "1", ""),
        ("a-real-one", "", "file:///real"),
        ("gpu-cluster-lab", "1", "file:///real"),
    ],
    ids=["a substitute's own state", "the real stack", "a stack of an embedded cluster"],
)
def test_what_works_on_its_own_state_is_not_refused(
    context: str, embedded: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDDED", embedded)
    monkeypatch.setenv("PULUMI_BACKEND_URL", backend)
    require_own_state(made(tmp_path, monkeypatch, context))
