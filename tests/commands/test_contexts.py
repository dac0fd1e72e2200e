"""Commands with `--embedded` never change the state of the real stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_cluster.commands import contexts, down
from gpu_cluster.commands import stack as stacks
from gpu_cluster.commands.contexts import require_consent, require_embedded, require_own_state
from gpu_cluster.commands.stack import Stack
from gpu_rules.faults import FaultError

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


@pytest.mark.promise("`gpu-cluster down` with `--embedded` never destroys the real stack.")
def test_a_substitute_changes_no_state_of_a_named_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDDED", "1")
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///real")
    lab = made(tmp_path, monkeypatch, "a-real-one")
    with pytest.raises(FaultError, match="stack lab --embedded: found PULUMI_BACKEND_URL"):
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


@pytest.mark.promise("`gpu-cluster down` never destroys a stack on a real cluster.")
def test_down_refuses_a_stack_on_a_real_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EMBEDDED", raising=False)
    with pytest.raises(FaultError) as caught:
        require_embedded(made(tmp_path, monkeypatch, "a-real-one"))
    assert 'the real cluster of context "a-real-one"' in str(caught.value)
    assert "`gpu-cluster destroy --stack lab`" in str(caught.value)
    require_embedded(made(tmp_path, monkeypatch, "gpu-cluster-lab"))
    monkeypatch.setenv("EMBEDDED", "1")
    require_embedded(made(tmp_path, monkeypatch, "a-real-one"))


def test_down_refuses_before_it_opens_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*given: object) -> int:
        raise AssertionError("the state was opened")

    monkeypatch.delenv("EMBEDDED", raising=False)
    made(tmp_path, monkeypatch, "a-real-one")
    monkeypatch.setattr(down, "destroy", opened)
    with pytest.raises(FaultError, match="gpu-cluster destroy"):
        down.main()


@pytest.mark.parametrize(
    ("context", "terminal", "answer", "refused"),
    [
        ("a-real-one", True, "lab", False),
        ("a-real-one", True, "y", True),
        ("a-real-one", True, "", True),
        ("a-real-one", False, "", False),
        ("gpu-cluster-lab", True, "", False),
    ],
    ids=["the name", "yes", "no answer", "no terminal", "an embedded cluster"],
)
@pytest.mark.promise(
    "At a terminal, `gpu-cluster destroy` of a stack on a real cluster asks for the stack's "
    "name first."
)
def test_a_person_consents_to_destroying_a_real_stack_by_its_name(
    context: str,
    terminal: bool,
    answer: str,
    refused: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def answered(question: str) -> str:
        asked.append(question)
        if not answer:
            raise EOFError
        return answer

    monkeypatch.delenv("EMBEDDED", raising=False)
    monkeypatch.setattr(contexts, "asks", lambda: terminal)
    monkeypatch.setattr("builtins.input", answered)
    stack = made(tmp_path, monkeypatch, context)
    if refused:
        with pytest.raises(FaultError, match="nothing was destroyed"):
            require_consent(stack, 24)
    else:
        require_consent(stack, 24)
    assert bool(asked) == (terminal and context == "a-real-one")
    assert all("24 resources" in question and "a-real-one" in question for question in asked)
