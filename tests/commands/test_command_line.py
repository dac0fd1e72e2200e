"""The command line `gpu-cluster`: its help, its options, and how it refuses wrong words."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.commands import command_line
from gpu_cluster.commands.command_line import read
from gpu_cluster.commands.verbs import BY_NAME, VERBS, Verb
from tests.fixtures.programs import run_program

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("pulumi", "pydantic", "pydantic_core", "grpc", "rich", "yaml", "click")
PASSED_ON = ("rules",)
"""Verbs whose arguments another program reads."""
READ_HERE = [verb for verb in VERBS if verb.name not in PASSED_ON]
VALUES = ("x'y", 'a "b" c', "$(id)`id`$HOME", "läb 集群", "--x", " ", "a\nb", "$$")
"""Values that a shell or `make` would change if it read them."""


ZSH = r"""
zmodload zsh/zpty
zpty typed zsh -f -i
zpty -w typed 'autoload -Uz compinit && compinit -u -D; eval "$(cat {script})"; unsetopt automenu
    show() {{ print -r -- "[$BUFFER ]"; BUFFER=; }}; zle -N show; bindkey "^X" show; print read""y'
zpty -r typed shown '*ready*'
for line in 'gpu-cluster valid' 'gpu-cluster validate --n' 'gpu-cluster up --stack p' \
    'gpu-cluster rules ch'; do
    zpty -w -n typed "$line"$'\t\x18'
    zpty -r typed shown '*\[gpu-cluster*\]*'
    print -r -- "$shown"
done
"""
"""Types lines into a zsh at a terminal, each with a tab, and prints what becomes of them."""


def run(*words: str, folder: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `gpu-cluster` in a process of its own, without variables of the user."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return run_program(
        [sys.executable, "-m", "gpu_cluster.commands", *words],
        cwd=folder,
        env={**kept, "PYTHONUTF8": "1", **variables},
        timeout=120,
    )


def loaded(*words: str) -> tuple[set[str], str]:
    """Return the modules that a command line has loaded when it ends, and its output."""
    program = (
        "import sys\nfrom gpu_cluster.commands.command_line import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print('\\n@', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    output, _, modules = done.stdout.rpartition("\n@ ")
    return set(modules.split()), output


@pytest.mark.parametrize("words", [["--help"], [], *([verb.name, "--help"] for verb in VERBS)])
@pytest.mark.promise("`gpu-cluster --help`, of each verb too, imports neither Pulumi nor pydantic.")
def test_help_imports_nothing_that_takes_time(words: list[str]) -> None:
    modules, output = loaded(*words)
    assert "usage: gpu-cluster" in output
    assert not modules & {*HEAVY, "inspect"}


@pytest.mark.promise(
    "A stack without a file is refused before anything is imported that takes time."
)
def test_a_wrong_stack_is_refused_with_the_nearest_name_before_heavy_imports() -> None:
    modules, _ = loaded("up", "--stack", "prd")
    assert not modules & {*HEAVY, "inspect"}
    for variables, words in (({}, ("-s", "prd")), ({"STACK": "prd"}, ())):
        refused = run("up", *words, **variables)
        assert refused.returncode == 1
        assert refused.stderr.startswith("stack 'prd': found no file Pulumi.prd.yaml in ")
        assert "wanted: one of dev, prod, staging; cure: did you mean prod?" in refused.stderr


@pytest.mark.parametrize(
    "verb", [verb.name for verb in VERBS if verb.has_stack and verb.needs_stack]
)
def test_each_verb_on_a_stack_refuses_a_stack_without_a_file_by_the_same_words(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = ["x" for option in BY_NAME[verb].options if option.is_position]
    monkeypatch.setenv("STACK", "dev")
    with pytest.raises(SystemExit, match=r"stack 'none': found no file Pulumi\.none\.yaml"):
        command_line.main([verb, *positions, "--stack", "none"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("name: gpus\n", "gpus"),
        ("description: a\nname: 'my-site'\n", "my-site"),
        ('name: "gpu-cluster.2"\n', "gpu-cluster.2"),
        ("name: gpu-cluster\n", ""),
        ("name: 'gpu-cluster' # of a site\n", ""),
    ],
)
def test_a_project_with_another_name_than_those_in_the_state_is_refused(
    text: str, found: str, tmp_path: Path
) -> None:
    (tmp_path / "Pulumi.yaml").write_text(text)
    done = run("status", "--stack", "dev", folder=tmp_path)
    assert done.returncode == 1
    refusal = f"Pulumi.yaml: found name {found}; wanted: gpu-cluster, which is part of all names"
    if found:
        assert done.stderr.startswith(refusal)
        assert done.stderr.rstrip().endswith("cure: write name: gpu-cluster")
    else:
        assert done.stderr.startswith("stack 'dev': found no file Pulumi.dev.yaml")


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "a b", "x" * 101, "lä"])
def test_what_no_stack_can_be_called_is_no_part_of_a_path(name: str) -> None:
    refused = run("status", STACK=name)
    assert refused.returncode == 1
    assert "a name that no stack can have" in refused.stderr


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (["validte"], "no verb 'validte'; did you mean validate?"),
        (["validate", "--nods", "x"], "no option '--nods'; did you mean --nodes?"),
        (["validate", "--nods=x"], "no option '--nods'; did you mean --nodes?"),
        (["up", "--stak", "dev"], "no option '--stak'; did you mean --stack?"),
        (["up", "--output", "yaml"], "choose from 'text', 'json'"),
        (["up", "dev"], "no argument 'dev'"),
        (["why"], "required: NAMESPACE/NAME"),
        (["--vers"], "--vers"),
        (["completion", "fich"], "invalid choice: 'fich'; did you mean fish?"),
        (["init", "--forge=gitlap"], "did you mean gitlab?"),
        (["tools", "--refesh"], "no option '--refesh'; did you mean --refresh?"),
        (["rules", "chek"], "invalid choice: 'chek'; did you mean check?"),
        (["rules"], "required: COMMAND"),
        (
            ["rules", "check", "--fail-no=advisory", "."],
            "no option '--fail-no'; did you mean --fail-on?",
        ),
        (["rules", "list", "--outptu", "json"], "no option '--outptu'; did you mean --output?"),
    ],
)
def test_wrong_words_are_named_with_the_nearest_right_ones(words: list[str], cure: str) -> None:
    refused = run(*words)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert cure in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_wrong_words_are_no_drift_of_a_status() -> None:
    assert run("status", "--stak", "dev").returncode == 1


@pytest.mark.parametrize("verb", READ_HERE, ids=lambda verb: verb.name)
def test_the_options_of_a_verb_are_the_parameters_of_its_function(verb: Verb) -> None:
    module, name = verb.function
    function: Any = getattr(importlib.import_module(module, "gpu_cluster.commands"), name)
    parameters = inspect.signature(function).parameters
    assert [*parameters] == [option.parameter for option in verb.options]


def test_the_help_of_rules_names_all_commands_of_gpu_rules() -> None:
    (option,) = BY_NAME["rules"].options
    program = [sys.executable, "-m", "gpu_rules", "none"]
    refused = run_program(program, cwd=ROOT, timeout=120).stderr
    choices = re.search(r"choose from ([^)]*)", refused)
    assert choices is not None, refused
    assert [*option.choices] == re.findall(r"\w+", choices[1])
    assert all(name in option.text for name in option.choices)
    for name in option.choices:
        assert run("rules", name, "--help").stdout.startswith(f"usage: gpu-rules {name} "), name


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
@pytest.mark.promise("The help of each verb has examples that show each of its own options.")
def test_each_example_is_read_and_each_option_has_one(verb: Verb) -> None:
    shown: set[str] = set()
    for example in verb.examples:
        words = shlex.split(example)
        found, values = read(words[:2] if verb.name in PASSED_ON else words)
        assert found == verb
        shown |= {name for name, value in values.items() if value}
    assert {option.parameter for option in verb.options} <= shown


def test_help_fits_a_terminal_of_80_columns() -> None:
    for words in (["--help"], *([verb.name, "--help"] for verb in VERBS)):
        text = run(*words, COLUMNS="80").stdout.partition("examples:")[0]
        assert max(map(len, text.splitlines())) <= 80, words


@pytest.mark.parametrize("value", VALUES)
def test_values_reach_a_verb_as_they_are(value: str) -> None:
    """Through `make`, too, from its command line and from the environment."""
    _, values = read(["leave", f"--pool={value}", f"--hosts={value}"])
    assert (values["pool"], values["hosts"]) == (value, value)
    if value == " ":
        return
    shown = run("why", "--", value).stderr
    assert "no namespace and name of a pod" in shown
    make = ["make", "--silent", "--old-file=venv/bin/gpu-cluster", "why"]
    for more, variables in (([f"POD={value}"], {}), ([], {"POD": value})):
        if "\n" in value and more:
            continue  # `make` takes no line break in a variable of its command line
        kept = {name: os.environ[name] for name in ("PATH", "HOME")}
        done = run_program([*make, *more], cwd=ROOT, env={**kept, **variables}, timeout=120)
        assert done.stderr.splitlines()[0] == shown.splitlines()[0]
        assert done.stdout == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.promise(
    "`gpu-cluster completion` completes verbs, options and stacks in bash, zsh and fish."
)
def test_the_completion_of_a_shell_names_verbs_options_and_stacks(
    shell: str, tmp_path: Path
) -> None:
    script = tmp_path / "completion"
    script.write_text(run("completion", shell).stdout)
    program = shutil.which(shell, path="/usr/bin:/bin")
    if program is None:
        pytest.skip(f"{shell} is not installed")
    asked = {
        "bash": f"""source {script}
            complete_words() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_gpu_cluster
                printf '%s\\n' "${{COMPREPLY[@]}}"; }}
            complete_words gpu-cluster valid; complete_words gpu-cluster validate --n
            complete_words gpu-cluster up --stack p; complete_words gpu-cluster rules ch""",
        "fish": f"""source {script}
            complete -C 'gpu-cluster valid'; complete -C 'gpu-cluster validate --n'
            complete -C 'gpu-cluster up --stack p'; complete -C 'gpu-cluster rules ch'""",
        "zsh": ZSH.format(script=script),
    }[shell]
    done = run_program(
        [program, "-c", asked],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "dumb", "COLUMNS": "200"},
        timeout=120,
    )
    words = done.stdout.replace("\r", " ").split()
    assert {"validate", "--nodes", "prod", "check"} <= set(words), done.stdout + done.stderr
