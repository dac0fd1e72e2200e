"""A failed command reports its cause, and no error of Pulumi or the program is lost."""

from __future__ import annotations

import pytest
from pulumi.automation import CommandError, CommandResult

from gpu_cluster.commands import up
from gpu_cluster.commands.failure import annotate, cause, condensed, errors_of, summary
from gpu_cluster.commands.stack import Stack
from gpu_cluster.inspection.judgement import NAMED, _warn_of_deferred

LOCKED = """\
error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end or \
delete the lock file with `pulumi cancel`.
  file:///s/.pulumi/locks/organization/gpu-cluster/dev/a.json?metadata=skip: created by ann@desk \
(pid 77) at 2026-11-28T15:25:07Z
"""
"""Error of the engine 3.274.1 (pkg/backend/diy/lock.go, checkForLock)."""


@pytest.mark.parametrize(
    ("stderr", "stdout", "wanted"),
    [
        ("error: passphrase must be set with X", "", "set PULUMI_CONFIG_PASSPHRASE or"),
        (
            "error: passphrase must be set with PULUMI_CONFIG_PASSPHRASE or "
            "PULUMI_CONFIG_PASSPHRASE_FILE environment variables",
            "",
            "error: passphrase must be set; cure: set PULUMI_CONFIG_PASSPHRASE or",
        ),
        ("error: getting secrets manager: incorrect passphrase", "", "created with"),
        ("error: the stack is currently locked by 1 lock(s)", "", "`pulumi cancel`"),
        (LOCKED, "", "locked by ann@desk (process 77) since 2026-11-28T15:25:07Z; cure: wait"),
        # The engine 3.274.1 with a full disk (hashicorp/go-multierror, format.go).
        (
            "error: 2 errors occurred:\n\t* write /s/a.json: no space left on device\n\t* b\n\n",
            "",
            "2 errors occurred: write /s/a.json: no space left on device; b; cure: make room",
        ),
        (
            "error: 2 errors occurred:\n    1) EOF\n    2) unexpected end of JSON input\n",
            "",
            "2 errors occurred: EOF; unexpected end of JSON input; cure: ",
        ),
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


@pytest.mark.promise("The last line of a failed command has the cause, however long the error is.")
@pytest.mark.parametrize(
    ("errors", "line"),
    [
        (["error: this"], "this"),
        (["error: this", "error: that"], "this; more above"),
        # Announcements: the cause is in the lines below.
        (["2 errors occurred:\n\t* a\n\t* b\n"], "2 errors occurred: a; b"),
        (["Pulumi.a.yaml: 2 problems\n  1. a: found b\n  2. c"],
         "Pulumi.a.yaml: 2 problems: a: found b; c"),
        (["local command: exit status 1\nrollout: gpu-1 cordoned\ngpu-1: no answer"],
         "gpu-1: no answer; more above"),
        (["192.0.2.1:22: exit status 3\nwhy"], "192.0.2.1:22: exit status 3: why"),
        (["local command: exit status 1"], "local command: exit status 1"),
        # What the engine adds about itself is not the cause.
        (["update failed", 'before hook "steps" failed:\nhost gpu-3: found no answer; wanted: an '
          "answer; cure: bring it up", "failed to run remediation: context canceled"],
         "host gpu-3: found no answer; wanted: an answer; cure: bring it up; more above"),
        (["update failed"], "update failed"),
    ],
)  # fmt: skip
def test_the_last_line_has_the_cause(errors: list[str], line: str) -> None:
    assert summary(errors) == line


def test_a_long_cause_ends_where_a_line_ends() -> None:
    assert len(summary([f"2 errors occurred:\n\t* {'x' * 5000}"])) < 1500


def test_the_engines_text_reaches_no_terminal_unescaped() -> None:
    assert errors_of("error: \x1b[2Jgone") == ["error: \\x1b[2Jgone"]


def test_a_traceback_of_the_program_is_one_line() -> None:
    text = "Traceback (most recent call last):\n  File \"x\", line 1\nKeyError: 'a'\n"
    assert condensed(text) == (
        "the program failed: KeyError: 'a'; cure: --verbose shows where, for a report"
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
        "the plugin /c/pulumi-resource-x ended at its start: ImportError: no grpc; cure: run "
        "`gpu-cluster tools`, which shows the toolchain and builds what is missing"
    )
    (line,) = errors_of(
        "ImportError: no grpc\n\nerror: could not read plugin [/c/x]: exit status 1"
    )
    assert (
        "exit status 1; the plugin printed: ImportError: no grpc; cure: run `gpu-cluster tools`"
        in line
    )


def test_a_cause_is_one_command_to_a_workflow_and_nothing_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gpu_cluster.commands.failure.VERB", "up")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    annotate("100% of\n::add-mask::hosts")
    assert (
        capsys.readouterr().err == "::error title=gpu-cluster up::100%25 of%0A::add-mask::hosts\n"
    )
    monkeypatch.delenv("GITHUB_ACTIONS")
    annotate("a")
    assert capsys.readouterr().err == ""


def test_who_holds_a_deferred_gpu_is_named_with_what_to_do() -> None:
    node = {"name": "gpu-1", "deferred": 1, "held": "team/train (Running, holds 1)"}
    free = {"name": "gpu-2", "deferred": 0, "held": ""}
    assert up.deferred(Stack("lab"), [node, free]) == [
        "deferred: node gpu-1: 1 GPU, held by team/train (Running, holds 1); when these have "
        "ended: gpu-cluster validate --stack lab --nodes gpu-1"
    ]
    many = [{**node, "name": f"gpu-{number}"} for number in range(12)]
    assert up.deferred(Stack("dev"), many)[-1] == "deferred: 2 more nodes"


def test_a_preview_names_some_holders_and_counts_the_others() -> None:
    faults = [
        str(fault)
        for fault in _warn_of_deferred({f"gpu-{n}": "1 GPU" for n in range(NAMED + 2)}, "lab")
    ]
    assert len(faults) == NAMED + 1
    assert "`gpu-cluster validate --stack lab --nodes gpu-0`" in faults[0]
    assert faults[-1].startswith("2 more nodes: ")
