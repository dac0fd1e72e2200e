"""A command copies the state to its backend before it changes something, and keeps a few copies."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pulumi import automation

from gpu_cluster.commands import destroy, forget, leave, up
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.state_copies import keep_copy
from gpu_cluster.loading.loader import load
from tests.fixtures.documents import stack_document

DOCUMENT = stack_document(context="gpu-cluster-dev", nodes=["gpu-1"])


def of(number: int) -> automation.Deployment:
    return automation.Deployment(3, {"resources": [{"urn": f"urn:{number}"}]})


def stack_with(monkeypatch: pytest.MonkeyPatch, **settings: int) -> Stack:
    cluster = load({**DOCUMENT, **settings})
    monkeypatch.setattr(Stack, "cluster", property(lambda stack: cluster))
    return Stack("dev")


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}?metadata=skip")
    return tmp_path / ".pulumi" / "copies" / "gpu-cluster" / "dev"


@pytest.mark.promise("A run keeps a copy of the state in a local backend before it changes it.")
def test_the_newest_copies_stay_up_to_the_declared_number(
    backend: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = stack_with(monkeypatch, stateCopies=3)
    for number in range(5):
        keep_copy(stack, of(number))
    kept = [json.loads(path.read_text()) for path in sorted(backend.iterdir())]
    assert [each["deployment"]["resources"][0]["urn"] for each in kept] == [
        "urn:2",
        "urn:3",
        "urn:4",
    ]
    assert {each["version"] for each in kept} == {3}


def test_a_copy_can_be_read_by_its_owner_only(
    backend: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = keep_copy(stack_with(monkeypatch), of(1))
    assert copy is not None
    assert copy.stat().st_mode & 0o777 == 0o600
    assert backend.stat().st_mode & 0o777 == 0o700


def test_a_run_without_change_makes_no_second_copy(
    backend: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = stack_with(monkeypatch)
    assert keep_copy(stack, of(1)) == keep_copy(stack, of(1))
    assert len(list(backend.iterdir())) == 1


def test_nothing_is_copied_without_resources_or_if_no_copy_is_wanted(
    backend: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keep_copy(stack_with(monkeypatch), automation.Deployment(3, {})) is None
    assert keep_copy(stack_with(monkeypatch, stateCopies=0), of(1)) is None
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://bucket")
    assert keep_copy(stack_with(monkeypatch), of(1)) is None
    assert not backend.exists()


def test_a_clock_that_was_set_back_does_not_make_a_new_copy_the_oldest(
    backend: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = stack_with(monkeypatch, stateCopies=1)
    backend.mkdir(parents=True)
    (backend / "000007-2999-01-01T00.00.00Z.json").write_text("{}")
    copy = keep_copy(stack, of(1))
    assert copy is not None
    assert copy.name.startswith("000008-")
    assert [path.name for path in backend.iterdir()] == [copy.name]


class Copied(Exception):
    """The copy was made."""


CHANGES: dict[str, tuple[ModuleType, Callable[[Stack], object]]] = {
    "up, validate": (up, lambda stack: up.run(stack, {})),
    "destroy, down": (destroy, lambda stack: destroy.destroy(stack, {})),
    "leave": (leave, lambda stack: leave.run(stack, leave.Part(), {})),
    "forget": (forget, lambda stack: forget.main(host="gpu-1")),
}
"""The functions by which the verbs change a state."""


@pytest.mark.promise(
    "Each of up, validate, destroy, down, leave and forget keeps a copy of the state first."
)
@pytest.mark.parametrize("verbs", CHANGES)
def test_a_copy_is_made_before_anything_is_changed(
    verbs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's stack, the hosts and the cluster are absent: using one of them is an error."""
    module, change = CHANGES[verbs]
    stack = stack_with(monkeypatch)
    state = automation.Deployment(3, {"resources": [{"urn": "urn:gpu-1", "type": "a:b:C"}]})

    def copy(copied: Stack, exported: automation.Deployment) -> None:
        assert (copied.name, exported) == (stack.name, state)
        raise Copied

    harmless: dict[str, Any] = {
        "keep_copy": copy,
        "select": lambda stack: None,
        "export_state": lambda selected: state,
        "of_host": lambda resources, host: ["urn:gpu-1"],
        "embedded_cluster": lambda stack: None,
        "require_ready": lambda context, nodes: _nothing(),
    }
    named = ("require_context", "require_own_state", "require_consent", "ensure_tools")
    for name in (*harmless, *named, "start_cluster"):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, harmless.get(name, lambda *arguments: None))
    monkeypatch.setattr(Stack, "current", lambda: stack)
    monkeypatch.setattr(Stack, "unsalted", lambda stack: nullcontext())
    with pytest.raises(Copied):
        change(stack)


async def _nothing() -> None:
    pass
