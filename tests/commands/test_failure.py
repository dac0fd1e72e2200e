"""A failed command reports its cause, and no error of Pulumi or the program is lost."""

from __future__ import annotations

import pytest
from pulumi.automation import CommandError, CommandResult

from commands import up
from commands.failure import annotate, cause, condensed, errors_of, name_of, summary
from commands.stack import Stack
from components.inspection.judgement import NAMED, _deferred


@pytest.mark.parametrize(
    ("stderr", "stdout", "wanted"),
    [
        ("error: passphrase must be set with X", "", "set PULUMI_CONFIG_PASSPHRASE or"),
        ("error: getting secrets manager: incorrect passphrase", "", "created with"),
        ("error: the stack is currently locked by 1 lock(s)", "", "`pulumi cancel`"),
        # The engine 3.274.1 for a folder that is missing.
        ('error: unable to open state directory "file:///x": stat /x', "", "PULUMI_BACKEND_URL"),
        ("", "the reason is here", "the reason is here"),
        ("something that is no error line", "", "something that is no error line"),
        ("", "", "exit code 255 and wrote no reason"),
    ],
)
def test_a_failure_of_the_engine_has_a_cause(stderr: str, stdout: str, wanted: str) -> None:
    lines = cause(CommandError(CommandResult(stdout, stderr, 255)))
    assert len(lines) == 1
    assert wanted in lines[0]


def test_the_engines_text_reaches_no_terminal_unescaped() -> None:
    assert errors_of("error: \x1b[2Jgone") == ["error: \\x1b[2Jgone"]


def test_a_traceback_of_the_program_is_one_line() -> None:
    text = "Traceback (most recent call last):\n  File \"x\", line 1\nKeyError: 'a'\n"
    assert condensed(text) == (
        "the program failed: KeyError: 'a'; cure: VERBOSE=1 shows where, for a report"
    )
    assert condensed("two\nlines") == "two\nlines"


def test_a_plugin_that_ended_is_named_with_its_last_line() -> None:
    text = (
        "Detected that /c/pulumi-resource-x exited prematurely. \n       This is *always* a bug in "
        "the provider. Please report the issue to the provider author as appropriate.\n       To "
        "assist with debugging we have dumped the STDOUT and STDERR streams of the plugin:first\n"
        "ImportError: no grpc\n"
    )
    assert condensed(text) == (
        "the plugin /c/pulumi-resource-x ended at its start: ImportError: no grpc; cure: run `make "
        "tools`, which shows the toolchain and builds what is missing"
    )
    (line,) = errors_of(
        "ImportError: no grpc\n\nerror: could not read plugin [/c/x]: exit status 1"
    )
    assert "exit status 1; the plugin printed: ImportError: no grpc; cure: run `make tools`" in line


def test_the_last_line_of_a_command_holds_the_first_cause() -> None:
    assert summary(["error: this"]) == "this"
    assert summary(["1 problem\n  a: found b", "error: that"]) == "1 problem; more above"


def test_a_cause_is_one_command_to_a_workflow_and_nothing_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["/x/commands/up.py"])
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    annotate("100% of\n::add-mask::hosts")
    assert capsys.readouterr().err == "::error title=make up::100%25 of%0A::add-mask::hosts\n"
    monkeypatch.delenv("GITHUB_ACTIONS")
    annotate("a")
    assert capsys.readouterr().err == ""


def test_a_command_has_the_name_of_its_target() -> None:
    assert name_of("/x/commands/environment.py") == "env"
    assert name_of("/x/commands/preview_state.py") == "preview-state"


def test_who_holds_a_deferred_gpu_is_named_with_what_to_do() -> None:
    node = {"name": "gpu-1", "deferred": 1, "held": "team/train (Running, holds 1)"}
    free = {"name": "gpu-2", "deferred": 0, "held": ""}
    assert up.deferred(Stack("lab"), [node, free]) == [
        "deferred: node gpu-1: 1 GPU, held by team/train (Running, holds 1); when these have "
        "ended: make validate STACK=lab NODES=gpu-1"
    ]
    many = [{**node, "name": f"gpu-{number}"} for number in range(12)]
    assert up.deferred(Stack("dev"), many)[-1] == "deferred: 2 more nodes"


def test_a_preview_names_some_holders_and_counts_the_others() -> None:
    faults = [
        str(fault) for fault in _deferred({f"gpu-{n}": "1 GPU" for n in range(NAMED + 2)}, "lab")
    ]
    assert len(faults) == NAMED + 1
    assert "`make validate STACK=lab NODES=gpu-0`" in faults[0]
    assert faults[-1].startswith("2 more nodes: ")
