"""Tests of `command:local:Command` in a process of the plugin."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from google.protobuf import empty_pb2

from tests.toolchain.plugins.rig import LIMIT, Background, Failed, Plugin, alive, until

COMMAND = "command:local:Command"


def test_the_default_is_sh_in_the_engine_s_folder(shared_plugin: Plugin) -> None:
    state = shared_plugin.create(COMMAND, create="echo $0; pwd")
    assert state["stdout"].splitlines() == ["/bin/sh", os.getcwd()]


def test_interpreter_folder_environment_and_stdin_are_taken(
    shared_plugin: Plugin, tmp_path: Path
) -> None:
    state = shared_plugin.create(
        COMMAND,
        interpreter=["/bin/sh", "-e", "-c"],
        dir=str(tmp_path),
        environment={"GREETING": "two\nlines"},
        stdin="from stdin",
        create='pwd; printf "%s" "$GREETING"; cat',
    )
    assert state["stdout"] == f"{tmp_path}\ntwo\nlinesfrom stdin"


def test_a_failure_names_the_status_and_a_missing_folder_the_folder(
    shared_plugin: Plugin, tmp_path: Path
) -> None:
    with pytest.raises(Failed, match=r"^local command: exit status 7\nwhy$"):
        shared_plugin.create(COMMAND, create="echo why; exit 7")
    with pytest.raises(Failed, match=r"^local command: signal KILL$"):
        shared_plugin.create(COMMAND, create="kill -KILL $$")
    with pytest.raises(Failed, match=str(tmp_path / "none")):
        shared_plugin.create(COMMAND, create="true", dir=str(tmp_path / "none"))


def test_outputs_of_the_run_before_reach_update_and_delete(
    shared_plugin: Plugin, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    show = f'echo "$PULUMI_COMMAND_STDOUT/$PULUMI_COMMAND_STDERR" >{seen}'
    state = shared_plugin.create(COMMAND, create="echo out; echo err >&2", delete=show)
    shared_plugin.update(COMMAND, state, update=show)
    assert seen.read_text() == "out/err\n"
    seen.unlink()
    shared_plugin.delete(COMMAND, state)
    assert seen.read_text() == "out/err\n"
    shared_plugin.delete(COMMAND, state | {"addPreviousOutputInEnv": False})
    assert seen.read_text() == "/\n"


def test_an_output_longer_than_linux_passes_on_is_left_out_with_a_warning(plugin: Plugin) -> None:
    state = plugin.create(COMMAND, create="head -c 200000 /dev/zero | tr '\\0' x", logging="none")
    assert plugin.update(COMMAND, state, update="echo fine")["stdout"] == "fine"
    assert "PULUMI_COMMAND_STDOUT is not set" in plugin.shown


def test_without_a_command_nothing_runs(shared_plugin: Plugin) -> None:
    state = shared_plugin.create(COMMAND, update="exit 1", delete="true")
    assert (state["stdout"], state["stderr"]) == ("", "")


def test_cancel_ends_the_whole_process_group(plugin: Plugin, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    call = Background(
        lambda: plugin.create(
            COMMAND, create=f"sleep 300 & echo $$ $! >{pids}.part; mv {pids}.part {pids}; wait"
        )
    )
    until(pids.exists, "the command runs")
    plugin.stub.Cancel(empty_pb2.Empty(), timeout=LIMIT)
    assert str(call.join()) == "cancelled"
    for pid in map(int, pids.read_text().split()):
        until(lambda pid=pid: not alive(pid), f"process {pid} ended")


def test_the_plugin_ends_quietly_on_sigint_and_takes_its_command_along(tmp_path: Path) -> None:
    plugin = Plugin()
    pid = tmp_path / "pid"
    call = Background(
        lambda: plugin.create(
            COMMAND, create=f"echo $$ >{pid}.part; mv {pid}.part {pid}; exec sleep 300"
        )
    )
    until(pid.exists, "the command runs")
    plugin.process.send_signal(2)
    assert plugin.process.wait(LIMIT) == 0
    assert call.join() is not None
    assert not alive(int(pid.read_text()))
    plugin.close()
