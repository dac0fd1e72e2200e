"""Cures of the rules' checker are followed: with the files or the options that they name it runs.

A row has the files and the command that bring the message, words of the cure, and the files and the
command after it. `None` for a file deletes it; without a new command the first one runs again.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import yaml

from gpu_cluster.guardrails import check as project
from gpu_cluster.guardrails.stacks import context_of_document
from gpu_rules import command, settings
from gpu_rules.admission.parameters import literal
from gpu_rules.check import files, kustomization, parse
from gpu_rules.faults import InputError
from gpu_rules.kube import quantity
from gpu_rules.rules import EXAMPLES, RULES, TWINS
from gpu_rules.rules.example import edited
from tests.fixtures.documents import stack_document
from tests.policies.check.running import check as run
from tests.policies.check.samples import GOOD
from tests.proofs.advice.rows import Record, note

CHECK = "policies/gpu_rules/check"
PACK = "policies/gpu_rules"
POD = GOOD.replace("spec:", "  annotations: {a: b}\nspec:").replace(
    "{name: good, namespace: team}", "\n  name: good\n  namespace: team"
)
"""A pod with an annotation, whose value the rows break."""
OWN = """
from ...context import Severity
from ..example import Example
from ..rule import Rule
from ..twin import NoTwin


RULE = Rule("GPU951", "A pod has a team", Severity.MANDATORY, "why", "handbook", lambda *_: ())
TWIN = NoTwin("none is needed")
EXAMPLE = Example("kind: A", "kind: B")
"""
"""A user-defined rule that no object breaks."""
SETTINGS = "check pod.yaml --config settings.yaml"
FOLDER = {"settings.yaml": "ruleFolder: own", "pod.yaml": POD}
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join(['*' + old] * 9)}]\n"
    for old, new in zip("abcdef", "bcdefg", strict=True)
)
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1"}, "status": {}}
PODS = [yaml.safe_load(POD), yaml.safe_load(POD)]
LARGE = "#" + "x" * 400 + "\n"


class Row(NamedTuple):
    """A message of the checker, and what its cure does; the module's docstring has the meaning."""

    source: str
    cure: str
    command: str
    files: dict[str, Any]
    then: Mapping[str, Any] = MappingProxyType({})
    then_command: str = ""
    stdin: str | None = ""
    then_stdin: str = ""
    limit: tuple[Any, str] | None = None


def _annotated(value: str) -> dict[str, Any]:
    return {"pod.yaml": POD.replace("{a: b}", value)}


ROWS = (
    Row(
        f"{CHECK}/__main__.py",
        "correct the id",
        "check pod.yaml --rule GPU951=off",
        {"pod.yaml": POD},
        then_command="check pod.yaml --rule GPU001=off",
    ),
    Row(
        f"{CHECK}/__main__.py",
        "name a file in a folder of yours",
        "check pod.yaml --output json=none/report.json",
        {"pod.yaml": POD},
        then_command="check pod.yaml --output json=report.json",
    ),
    Row(
        f"{CHECK}/arguments.py",
        "write an id of that list",
        "check pod.yaml --rule GPU899=off",
        {"pod.yaml": POD},
        then_command="check pod.yaml --rule GPU001=off",
    ),
    Row(
        f"{CHECK}/arguments.py",
        "write one of these, such as GPU001=advisory",
        "check pod.yaml --rule GPU001=on",
        {"pod.yaml": POD},
        then_command="check pod.yaml --rule GPU001=advisory",
    ),
    Row(
        f"{CHECK}/arguments.py",
        "write it in this form",
        "check pod.yaml --output report.json",
        {"pod.yaml": POD},
        then_command="check pod.yaml --output json=report.json",
    ),
    Row(
        f"{CHECK}/context.py",
        "or give pools and platform in .gpu-rules.yaml",
        "check pod.yaml --stack dev",
        {"pod.yaml": POD},
        {
            ".gpu-rules.yaml": "platform: device-plugin\n"
            "pools: [{name: a100, gpusPerNode: 8, nodes: [gpu-1]}]"
        },
        then_command="check pod.yaml",
    ),
    Row(
        f"{CHECK}/document.py",
        "Name only files that contain manifests.",
        "check pod.yaml notes.yaml",
        {"pod.yaml": POD, "notes.yaml": "42"},
        then_command="check pod.yaml",
    ),
    Row(
        f"{CHECK}/files.py",
        "Pipe them in.",
        "check -",
        {},
        stdin=None,
        then_stdin=POD,
    ),
    Row(
        f"{CHECK}/files.py",
        "Split it into several files.",
        "check .",
        {"pods.yaml": f"{POD}---\n{POD}"},
        {"pods.yaml": POD, "more.yaml": POD.replace("good", "other")},
        limit=(files, "SIZE_LIMIT"),
    ),
    Row(
        f"{CHECK}/parse.py",
        "Write each object as a separate document, separated by ---.",
        "check pods.yaml",
        {"pods.yaml": json.dumps(PODS)},
        {"pods.yaml": "\n---\n".join(map(json.dumps, PODS))},
        limit=(parse, "SIZE_LIMIT"),
    ),
    Row(
        f"{CHECK}/parse.py",
        "Write each object as a separate document, separated by ---.",
        "check pods.yaml",
        {"pods.yaml": json.dumps(PODS).replace('"b"', '"items"')},
        {"pods.yaml": "\n---\n".join(map(json.dumps, PODS))},
        limit=(parse, "SIZE_LIMIT"),
    ),
    Row(
        f"{CHECK}/parse.py",
        "Correct the line.",
        "check pod.yaml",
        _annotated("[a"),
        _annotated("{a: b}"),
    ),
    Row(
        f"{CHECK}/parse.py",
        "Remove the nesting.",
        "check pod.yaml",
        {"pod.yaml": f"{POD}  x: {'[' * 250}{']' * 250}\n"},
        {"pod.yaml": POD},
    ),
    Row(
        f"{CHECK}/parse.py",
        "Write the value out.",
        "check pod.yaml",
        _annotated("{a: *b}"),
        _annotated("{a: b}"),
    ),
    Row(
        f"{CHECK}/parse.py",
        "Write the values out.",
        "check pod.yaml",
        {"pod.yaml": f"{BOMB}{POD}"},
        {"pod.yaml": f"a: [x]\nb: [x]\n{POD}"},
    ),
    Row(
        f"{CHECK}/parse.py",
        "Write the text itself.",
        "check pod.yaml",
        _annotated("{a: !!binary UG9%}"),
        _annotated("{a: Pod}"),
    ),
    Row(
        f"{CHECK}/parse.py",
        "Quote the key.",
        "check pod.yaml",
        _annotated("{~: b}"),
        _annotated('{"~": b}'),
    ),
    Row(
        f"{CHECK}/parse.py",
        "Remove one of the two.",
        "check pod.yaml",
        _annotated("{a: b, a: c}"),
        _annotated("{a: c}"),
    ),
    Row(
        f"{CHECK}/parse.py",
        "Write it out.",
        "check pod.yaml",
        _annotated("{<<: text}"),
        _annotated("{<<: {a: text}}"),
    ),
    Row(
        f"{CHECK}/stream.py",
        "Save the file as UTF-8.",
        "check pod.yaml",
        {"pod.yaml": POD.replace("{a: b}", "{a: für}").encode("latin-1")},
        _annotated("{a: für}"),
    ),
    Row(
        f"{CHECK}/stream.py",
        "Save the file as UTF-8.",
        "check pod.yaml",
        {"pod.yaml": POD.encode("utf-16")},
        {"pod.yaml": POD},
    ),
    Row(
        f"{PACK}/command.py",
        "Run kubectl get nodes -o json | gpu-rules settings -",
        "settings -",
        {},
        stdin='{"kind": "List"}',
        then_stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE]}),
    ),
    Row(
        f"{PACK}/command.py",
        "write a name such as gpu-jobs",
        "export vap --list --exclude GPU_jobs",
        {},
        then_command="export vap --list --exclude gpu-jobs",
    ),
    Row(
        f"{PACK}/parameters.py",
        "or correct the name",
        SETTINGS,
        {"pod.yaml": POD, "settings.yaml": "rules: {GPU951: advisory}"},
        {"settings.yaml": "rules: {GPU001: advisory}"},
    ),
    Row(
        f"{PACK}/parameters.py",
        "give the folder of your own rules as ruleFolder",
        SETTINGS,
        {"pod.yaml": POD, "settings.yaml": "rules: {GPU951: advisory}"},
        {
            "settings.yaml": "{rules: {GPU951: advisory}, ruleFolder: own}",
            "own/gpu951_team.py": OWN,
        },
    ),
    Row(
        f"{CHECK}/context.py",
        "or correct the name",
        SETTINGS,
        {"pod.yaml": POD, "settings.yaml": "rules: {GPU951: advisory}"},
        {"settings.yaml": "rules: {GPU001: advisory}"},
    ),
    Row(
        f"{PACK}/rules/own_rules.py",
        "name the folder with them in ruleFolder",
        SETTINGS,
        {**FOLDER, "mine/gpu951_team.py": OWN},
        {"settings.yaml": "ruleFolder: mine"},
    ),
    Row(
        f"{PACK}/rules/own_rules.py",
        "correct this error in the module",
        SETTINGS,
        {**FOLDER, "own/gpu951_team.py": f"{OWN}1 / 0\n"},
        {"own/gpu951_team.py": OWN},
    ),
    Row(
        f"{PACK}/rules/own_rules.py",
        "rename one of them",
        SETTINGS,
        {**FOLDER, "own/gpu952_team.py": OWN},
        {"own/gpu952_team.py": None, "own/gpu951_team.py": OWN},
    ),
    Row(
        f"{PACK}/rules/own_rules.py",
        "rename one of them",
        SETTINGS,
        {**FOLDER, "own/gpu952_team.py": OWN},
        {"own/gpu952_team.py": OWN.replace("GPU951", "GPU952")},
    ),
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make an empty folder the working directory, and forget user-defined rules afterwards."""
    monkeypatch.chdir(tmp_path)
    kustomization.read.cache_clear()
    yield tmp_path
    for known in (RULES, TWINS, EXAMPLES):
        for own in ("GPU951", "GPU952"):
            known.pop(own, None)


def _write(contents: Mapping[str, Any]) -> None:
    for name, content in contents.items():
        path = Path(name)
        path.parent.mkdir(exist_ok=True)
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())


def _given(text: str | None) -> io.TextIOWrapper | None:
    return None if text is None else io.TextIOWrapper(io.BytesIO(text.encode()))


@pytest.mark.promise("A cure of the rules' checker removes the fault and brings no new one.")
@pytest.mark.advice("several")
@pytest.mark.parametrize("row", ROWS, ids=[f"{row.cure[:40]}" for row in ROWS])
def test_a_cure_of_the_checker_is_followed(
    row: Row, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    if row.limit:
        monkeypatch.setattr(*row.limit, len(POD) + 60)
    _write(row.files)
    monkeypatch.setattr(sys, "stdin", _given(row.stdin))
    refused = run(*row.command.split(), rules=(), main=command.main)
    assert refused.code == 2, refused
    _write(row.then)
    monkeypatch.setattr(sys, "stdin", _given(row.then_stdin))
    done = run(*(row.then_command or row.command).split(), rules=(), main=command.main)
    assert (done.code, done.errors) == (0, ""), done
    note(record_property, row.source, refused.output + refused.errors, row.cure)


@pytest.mark.advice("several")
def test_a_command_that_a_cure_names_is_run(record_property: Record) -> None:
    _write({"pod.yaml": POD, "x.yaml": "a: 1"})
    cases = (
        (f"{CHECK}/baseline.py", "check pod.yaml --baseline known.json", "write one with", ""),
        (
            f"{CHECK}/context.py",
            "check pod.yaml --config x.yaml",
            "prints a file",
            "x.yaml",
        ),
        (f"{PACK}/command.py", "explain GPU999", "see `gpu-rules list`", "GPU001"),
    )
    for source, line, cure, target in cases:
        refused = run(*line.split(), rules=(), main=command.main)
        assert refused.code == 2, refused
        named = re.findall("`gpu-rules ([^`]+)`", refused.errors)[0].replace("PATH", "pod.yaml")
        done = run(*named.split(), rules=(), main=command.main)
        assert (done.code, done.errors) == (0, "")
        if target == "x.yaml":
            printed = yaml.safe_load(done.output)
            Path(target).write_text(json.dumps({"maxGpusPerPod": printed["maxGpusPerPod"]}))
        elif target:
            assert target in done.output
            line = line.replace("GPU999", target)
        done = run(*line.split(), rules=(), main=command.main)
        assert (done.code, done.errors) == (0, ""), done
        note(record_property, source, refused.errors, cure)


@pytest.mark.advice("several")
def test_the_checker_of_the_project_reads_its_stack_files(record_property: Record) -> None:
    stack = {"config": {"gpu-cluster:cluster": stack_document()}}
    _write({"pod.yaml": POD, "Pulumi.yaml": "name: gpu-cluster\nruntime: python\n"})
    _write({"Pulumi.dev.yaml": json.dumps(stack)})
    arguments = ("pod.yaml", "--stack", "dev")
    refused = run("check", *arguments, rules=(), main=command.main)
    done = run(*arguments, rules=(), main=project.main)
    assert (refused.code, done.errors) == (2, "")
    cure = "in the project run `python -m gpu_cluster.guardrails.check`"
    note(record_property, f"{CHECK}/context.py", refused.errors, cure)


@pytest.mark.advice("several")
def test_a_split_kustomization_is_read(
    monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    monkeypatch.setattr(kustomization, "SIZE_LIMIT", 500)
    _write({"kustomization.yaml": f"{LARGE}{LARGE}resources: [pod.yaml]\n", "pod.yaml": POD})
    with pytest.raises(InputError) as refused:
        kustomization._content("kustomization.yaml")
    assert kustomization.read(".") is None
    _write({"kustomization.yaml": f"{LARGE}resources: [base]\n"})
    _write({"base/kustomization.yaml": f"{LARGE}resources: [../pod.yaml]\n"})
    kustomization.read.cache_clear()
    assert kustomization.read(".") is not None
    assert kustomization.read("base") is not None
    note(record_property, f"{CHECK}/kustomization.py", refused.value, "Split it.")


@pytest.mark.advice("several")
def test_fewer_nodes_fit_into_policies(
    monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    # Only the facts of a policy, because all policies take seconds.
    monkeypatch.setattr(
        command, "exported", lambda _, found, __: [literal(found, "facts.gpuNodes")]
    )

    def exported(nodes: int) -> Any:
        names = [f"gpu-{number}.rack.site.example.com" for number in range(nodes)]
        pool = {"name": "a100", "gpusPerNode": 8, "nodes": names}
        _write({".gpu-rules.yaml": json.dumps({"pools": [pool]})})
        return run("export", "vap", rules=(), main=command.main)

    refused, done = exported(5000), exported(50)
    assert (refused.code, done.code, done.errors) == (2, 0, "")
    assert "gpu-49.rack.site.example.com" in done.output
    assert refused.errors.count("cure: ") == 1
    cure = "use fewer pools, fewer labels or shorter names of nodes"
    note(record_property, f"{PACK}/admission/parameters.py", refused.errors, cure)


@pytest.mark.advice("several")
def test_a_whole_character_is_read(record_property: Record) -> None:
    with pytest.raises(InputError) as refused:
        parse.documents("a: \ud83d")
    assert parse.documents("a: \N{GRINNING FACE}") == [{"a": "\N{GRINNING FACE}"}]
    note(record_property, f"{CHECK}/parse.py", refused.value, "Write the character itself.")


QUANTITIES: tuple[Any, ...] = (
    *("x", [1], float("inf"), 10**1001, "1" * 1001, "Pi", "1kk", "1e2000"),
)


@pytest.mark.advice("several")
@pytest.mark.parametrize("value", QUANTITIES, ids=lambda value: str(value)[:8])
def test_a_quantity_as_the_cure_has_it_is_read(value: Any, record_property: Record) -> None:
    with pytest.raises(quantity.QuantityError) as refused:
        quantity.parse(value)
    cure = refused.value.cure
    named = re.fullmatch(r"write a quantity such as (\w+) or (\w+)", cure)
    assert named
    assert [quantity.parse(text).milli for text in named.groups()] == [500, 8 * 2**30 * 1000]
    note(record_property, f"{PACK}/kube/quantity.py", f"{refused.value}; cure: {cure}", cure)


@pytest.mark.advice("several")
def test_an_example_is_edited_by_more_of_its_text(record_property: Record) -> None:
    with pytest.raises(ValueError, match="2 times") as refused:
        edited("a: 1\nb: 1\n", ("1", "2"))
    assert edited("a: 1\nb: 1\n", ("b: 1", "b: 2")) == "a: 1\nb: 2\n"
    cure = "give more of the text around it"
    note(record_property, f"{PACK}/rules/example.py", refused.value, cure)


@pytest.mark.advice("several")
def test_the_pack_of_the_project_reads_its_stack(
    monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    monkeypatch.setattr(settings, "_readers", [])
    monkeypatch.setattr(settings, "_received", {settings.STACK_KEY: json.dumps(stack_document())})
    settings._cached_context.cache_clear()
    with pytest.raises(ValueError, match="cannot read it") as refused:
        settings.context_for({})
    settings.read_stacks_by(context_of_document)
    assert [pool.name for pool in settings.context_for({}).pools] == ["a100"]
    cure = "use the pack of the project that declares the cluster"
    note(record_property, f"{PACK}/settings.py", refused.value, cure)
    monkeypatch.undo()
    settings._cached_context.cache_clear()
