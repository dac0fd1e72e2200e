"""Tests of `command:remote:Command` with a real sshd."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster import property_values as values
from tests.toolchain.plugins.rig import LIMIT, Background, Failed, Plugin, RigHost, alive, until

COMMAND = "command:remote:Command"
CANARY = "canary-7f3a91c2"


def test_outputs_are_stdout_and_stderr_without_the_last_newline(
    shared_plugin: Plugin, host: RigHost
) -> None:
    state = shared_plugin.create(
        COMMAND, connection=host.connection(), create="printf 'a\\n\\n'; echo b >&2"
    )
    assert (state["stdout"], state["stderr"]) == ("a\n", "b")


def test_stdin_of_more_than_1_mb_with_every_class_of_character_arrives_unchanged(
    shared_plugin: Plugin, host: RigHost
) -> None:
    planes = [*range(0x3000), *range(0xFFF0, 0x10010), *range(0x1F600, 0x1F650), 0x10FFFF]
    text = "".join(map(chr, planes)) * 32
    assert len(text.encode()) > 1 << 20
    state = shared_plugin.create(
        COMMAND,
        connection=host.connection(),
        create="cat; sha256sum >&2",
        stdin=text,
        logging="none",
    )
    assert state["stdout"] == text.removesuffix("\n")
    state = shared_plugin.create(
        COMMAND, connection=host.connection(), create="sha256sum", stdin=text
    )
    assert state["stdout"].split()[0] == hashlib.sha256(text.encode()).hexdigest()


def test_a_command_that_reads_no_stdin_succeeds(shared_plugin: Plugin, host: RigHost) -> None:
    state = shared_plugin.create(
        COMMAND, connection=host.connection(), create="echo done", stdin="x" * (4 << 20)
    )
    assert state["stdout"] == "done"


def test_an_accepted_environment_variable_arrives_unchanged(
    shared_plugin: Plugin, host: RigHost
) -> None:
    value = 'it\'s "two" lines\nwith $HOME and ü'
    state = shared_plugin.create(
        COMMAND,
        connection=host.connection(),
        create='printf %s "$GREETING"',
        environment={"GREETING": value},
    )
    assert state["stdout"] == value


def test_a_refused_environment_variable_fails_before_anything_runs(
    shared_plugin: Plugin, host: RigHost, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    with pytest.raises(Failed, match="refuses the environment variable 'OTHER'") as failure:
        shared_plugin.create(
            COMMAND,
            connection=host.connection(),
            create=f"touch {mark}",
            environment={"GREETING": "hello", "OTHER": CANARY},
        )
    assert not mark.exists()
    assert CANARY not in str(failure.value)


def test_outputs_of_the_run_before_are_passed_on_and_a_refusal_only_warns(
    plugin: Plugin, host: RigHost
) -> None:
    inputs: dict[str, Any] = {
        "connection": host.connection(),
        "create": "echo one; echo two >&2",
        "update": 'echo "was $PULUMI_COMMAND_STDOUT"',
    }
    state = plugin.create(COMMAND, **inputs)
    assert plugin.update(COMMAND, state, **inputs)["stdout"] == "was one"
    assert "the SSH server refuses PULUMI_COMMAND_STDERR" in plugin.shown
    inputs["addPreviousOutputInEnv"] = False
    assert plugin.update(COMMAND, state, **inputs)["stdout"] == "was "


def test_update_falls_back_to_create_and_delete_runs_only_if_given(
    shared_plugin: Plugin, host: RigHost, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    inputs: dict[str, Any] = {"connection": host.connection(), "create": f"echo create >>{log}"}
    state = shared_plugin.create(COMMAND, **inputs)
    state = shared_plugin.update(COMMAND, state, **inputs)
    shared_plugin.delete(COMMAND, state)
    shared_plugin.delete(COMMAND, state | {"delete": f"echo delete >>{log}"})
    assert log.read_text().split() == ["create", "create", "delete"]


def test_a_failure_names_host_status_and_last_output_but_no_secret(
    plugin: Plugin, host: RigHost
) -> None:
    with pytest.raises(Failed) as failure:
        plugin.create(
            COMMAND,
            connection=values.secret(host.connection(password="pw-" + CANARY)),
            create="cat; echo $GREETING; echo end >&2; exit 3",
            stdin=values.secret(f"token={CANARY}\nsecond {CANARY} line\n"),
            environment={"GREETING": "greeting-" + CANARY},
        )
    text = str(failure.value)
    assert text.startswith(f"127.0.0.1:{host.port}: exit status 3\n")
    assert "end" in text
    assert "[secret]" in text
    assert CANARY not in text
    assert f"token={CANARY}" not in plugin.shown


@pytest.mark.parametrize(
    ("logging", "shown"),
    [
        (None, {"out-line", "err-line"}),
        ("stdoutAndStderr", {"out-line", "err-line"}),
        ("stdout", {"out-line"}),
        ("stderr", {"err-line"}),
        ("none", set()),
    ],
)
def test_logging_says_what_is_shown_and_outputs_are_kept_all_the_same(
    plugin: Plugin, host: RigHost, logging: str | None, shown: set[str]
) -> None:
    inputs: dict[str, Any] = {
        "connection": host.connection(),
        "create": "echo out-line; echo err-line >&2",
    }
    state = plugin.create(COMMAND, **inputs, logging=logging)
    assert set(plugin.shown.split()) == shown
    assert all(message.ephemeral for message in plugin.engine.messages)
    assert (state["stdout"], state["stderr"]) == ("out-line", "err-line")


def test_a_line_of_1_mb_is_kept_whole_and_shown_short(plugin: Plugin, host: RigHost) -> None:
    state = plugin.create(
        COMMAND, connection=host.connection(), create="head -c 1048576 /dev/zero | tr '\\0' x"
    )
    assert state["stdout"] == "x" * 1048576
    assert 4096 <= len(plugin.shown) < 5000


def test_100_000_lines_are_all_shown(plugin: Plugin, host: RigHost) -> None:
    plugin.create(COMMAND, connection=host.connection(), create="seq 100000")
    assert plugin.shown.split() == [str(number) for number in range(1, 100001)]


def test_cancel_ends_the_remote_process_group(
    plugin: Plugin, host: RigHost, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    call = Background(
        lambda: plugin.create(
            COMMAND,
            connection=host.connection(),
            create=f"sleep 300 & echo $$ $! >{pids}.part; mv {pids}.part {pids}; wait",
        )
    )
    until(pids.exists, "the remote command runs")
    from google.protobuf import empty_pb2

    plugin.stub.Cancel(empty_pb2.Empty(), timeout=LIMIT)
    assert str(call.join()) == "cancelled"
    for pid in map(int, pids.read_text().split()):
        until(lambda pid=pid: not alive(pid), f"process {pid} ended")


def test_the_resource_s_timeout_ends_the_command(
    shared_plugin: Plugin, host: RigHost, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(Failed, match="not done within the resource's timeout of 1 s"):
        shared_plugin.create(
            COMMAND,
            timeout=1,
            connection=host.connection(),
            create=f"echo $$ >{pid}; exec sleep 300",
        )
    assert not alive(int(pid.read_text()))
