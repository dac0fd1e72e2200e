"""Input of the programs that Commands run: one frozen class for each, with clear errors."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields, is_dataclass
from functools import reduce
from operator import or_
from typing import TypeGuard

import pytest

from gpu_cluster import requests
from gpu_cluster.cluster import GpuCluster, GpuClusterArgs
from gpu_cluster.nodes.applied import Applied
from gpu_cluster.nodes.record import ValidationRecord
from gpu_cluster.operation import PROGRAM
from gpu_cluster.platforms.requests import NotedDefinitions
from gpu_cluster.programs import PROGRAMS
from gpu_cluster.requests import PREVIOUS, previous, read, write
from gpu_rules.faults import FaultError
from tests.fixtures.clusters import cluster
from tests.fixtures.programs import run_program
from tests.mocks import declare

CANARY = "canary-of-a-key"


def kind_of(name: str) -> tuple[list[type], list[str]]:
    """Return the classes of a program's input and its action names, which `main` gets."""
    module = importlib.import_module(PROGRAMS[name])
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if calls_main(node)]
    ((kind, actions),) = [call.args for call in calls]
    names = ast.unparse(kind).split(" | ")
    assert all(map(str.isidentifier, names)), f"{name}: its request has no class"
    assert isinstance(actions, ast.Dict)
    classes = [getattr(module, each) for each in names]
    return classes, [ast.literal_eval(key) for key in actions.keys if key]


def calls_main(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "main"


def started(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a subprocess, as a Command does."""
    return run_program(
        [sys.executable, "-m", "gpu_cluster.programs", *arguments], input=text, timeout=120
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_s_request_is_a_frozen_class(name: str) -> None:
    for kind in kind_of(name)[0]:
        assert is_dataclass(kind)
        bare = object.__new__(kind)
        with pytest.raises(FrozenInstanceError):
            setattr(bare, fields(kind)[0].name, None)


@pytest.mark.promise("A program that gets a request it can't read says which field, in one line.")
@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("crds", "", "DefinitionsRequest: the document"),
        ("presence", "[]", "PresenceRequest: the document"),
        ("kubeconfig", '{"context": "c"}', "KubeconfigRequest: administrator"),
        ("rollout", f'{{"private_key": ["{CANARY}"]}}', "RolloutRequest: private_key"),
    ],
)
def test_a_request_that_can_t_be_read_is_an_error_that_names_its_place(
    name: str, text: str, place: str
) -> None:
    _, (action, *_) = kind_of(name)
    ended = started(text, name, action)
    assert (ended.returncode, ended.stdout) == (1, "")
    lines = ended.stderr.splitlines()
    assert any(
        line.startswith(f"{place}: found an input of another release of this program")
        for line in lines
    )
    assert all("cure: run `up`" in line for line in lines)
    assert CANARY not in ended.stderr


@pytest.mark.parametrize("given", [[], ["unknown"]])
def test_an_action_that_a_program_has_not_is_refused_with_those_that_it_has(
    given: list[str],
) -> None:
    ended = started("{}", "crds", *given)
    assert ended.returncode == 1
    assert ended.stderr.startswith("program: found the action ")
    assert "wanted: one of note, remove" in ended.stderr


@pytest.mark.usefixtures("no_hooks")
@pytest.mark.parametrize("platform", ["device-plugin", "gpu-operator", "dra"])
def test_each_request_is_read_by_the_class_that_wrote_it(platform: str) -> None:
    def declared() -> None:
        made = cluster(
            platform=platform,
            runtime={"defaultRuntime": "runc"} if platform == "device-plugin" else {},
            reboot={"when": "required"},
        )
        GpuCluster("gpu-cluster", GpuClusterArgs(settings=made, private_key="key"))

    recorder = declare(declared, preview=False)
    given = [
        (resource.inputs["create"].split()[2], resource.inputs["stdin"])
        for resource in recorder.of("command:local:Command")
        if f" {PROGRAM} " in resource.inputs["create"]
    ]
    assert len(given) >= 3
    for name, stdin in given:
        # A Pulumi secret is wrapped in the mocks' inputs.
        text = stdin["value"] if isinstance(stdin, dict) else stdin
        kind = reduce(or_, kind_of(name)[0])
        assert json.loads(write(read(kind, text))) == json.loads(text)


def test_what_the_last_run_printed_is_read_with_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PREVIOUS, raising=False)
    assert previous(NotedDefinitions) == NotedDefinitions()
    noted = NotedDefinitions(names=("a", "b"), foreign=("a",))
    monkeypatch.setenv(PREVIOUS, write(noted))
    assert previous(NotedDefinitions) == noted
    monkeypatch.setenv(PREVIOUS, '{"names": "a"}')
    with pytest.raises(FaultError, match=r"NotedDefinitions: names: found an input"):
        previous(NotedDefinitions)


RECORD = {"facts": {"a": "b"}, "devices": {"GPU-1": ["MIG-1"]}, "missing": 1}
APPLIED = {
    "stack": "s", "pool": "p", "gpus": 8, "labels": {"a": "b"},
    "taints": [{"key": "a", "effect": "NoSchedule"}], "unfinished": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "document", "is_record"),
    [
        (ValidationRecord, RECORD, True),
        (ValidationRecord, RECORD | {"missing": "1"}, False),
        (ValidationRecord, RECORD | {"missing": True}, False),
        (ValidationRecord, RECORD | {"simulated": 1}, False),
        (ValidationRecord, RECORD | {"facts": {"a": 1}}, False),
        (ValidationRecord, RECORD | {"devices": {"GPU-1": "MIG-1"}}, False),
        (ValidationRecord, RECORD | {"later": "field"}, False),
        (ValidationRecord, [], False),
        (Applied, APPLIED, True),
        (Applied, APPLIED | {"gpus": -1}, False),
        (Applied, APPLIED | {"gpus": 10**6}, False),
        (Applied, APPLIED | {"gpus": "8"}, False),
        (Applied, APPLIED | {"taints": [{"key": "a"}]}, False),
        (Applied, APPLIED | {"taints": [{"key": "a", "effect": 1}]}, False),
        (Applied, APPLIED | {"later": "field"}, False),
        (Applied, {"stack": "s"}, False),
    ],
)
def test_only_what_this_program_writes_is_a_kept_record(
    kind: type, document: object, is_record: bool
) -> None:
    text = json.dumps(document)
    assert (requests.kept(kind, text, len(text)) is not None) is is_record
    assert requests.kept(kind, text, len(text) - 1) is None
    assert requests.kept(kind, text[:-1], len(text)) is None
