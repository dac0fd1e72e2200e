"""The checker judges what `kubectl get` prints without what the system wrote into it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.policies.check.running import Run, check

STORED = {"uid": "1", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"}


def running_pod(**metadata: Any) -> Any:
    container = {"name": "a", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "a", **STORED, **metadata},
        "spec": {"nodeName": "gpu-1", "containers": [container]},
    }


def listed(*pods: Any) -> Any:
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": pods}


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(value: Any, *arguments: str) -> Run:
        text = value if isinstance(value, str) else json.dumps(value)
        stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
        monkeypatch.setattr("sys.stdin", stdin)
        return check("-", *arguments, rules=())

    return run


@pytest.mark.parametrize("scope", ["stack", "object"])
def test_a_list_of_a_server_on_standard_input_is_judged_as_observed(piped: Any, scope: str) -> None:
    run = piped(listed(running_pod(), running_pod(name="b")), "--scope", scope)
    assert "GPU016" not in run.output
    assert "2 objects checked" in run.output
    assert "without what the system wrote" in run.output
    assert run.code == 0


NOT_OF_A_SERVER: dict[str, Any] = {
    "no metadata of a server": listed(running_pod(uid="")),
    "a single object": running_pod(),
    "an object of a server after another document": f"{json.dumps(listed(running_pod()))}\n---\n"
    + json.dumps(running_pod()),
    "one of several without a uid": listed(running_pod(), running_pod(uid="")),
}


@pytest.mark.parametrize("name", NOT_OF_A_SERVER)
def test_other_input_is_judged_as_a_manifest(piped: Any, name: str) -> None:
    run = piped(NOT_OF_A_SERVER[name])
    assert "mandatory GPU016" in run.output
    assert run.code == 1


def test_a_file_is_judged_as_observed_only_if_the_user_says_so(tmp_path: Path) -> None:
    file = tmp_path / "pods.json"
    file.write_text(json.dumps(listed(running_pod())))
    assert "mandatory GPU016" in check(str(file), rules=()).output
    assert "GPU016" not in check(str(file), "--observed", rules=()).output
