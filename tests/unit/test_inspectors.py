"""The processes beside the program wait for what they are asked, end, and say why they failed."""

from __future__ import annotations

import ast
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pulumi
import pytest

from components.inspection import look, processes
from components.inspection.processes import EXTENT, Extent, NoAnswer, Processes

ROOT = Path(__file__).resolve().parents[2]
NO_HOSTS = {"look": {"hosts": [], "privateKey": ""}}
NOTHING = {"facts": {}, "problems": []}
LIMIT = 60
"""Seconds for what must come."""


KEY = asyncssh.generate_private_key("ssh-ed25519")


def copy(name: str, port: int = 1, private_key: str = "") -> dict[str, Any]:
    """A question, whose host is never dialled where there is no private key."""
    endpoint = {"address": "127.0.0.1", "port": port, "user": "root", "bastion": None}
    public = KEY.export_public_key().decode().strip()
    host = {"name": name, "node": name, "role": "gpu-worker", "host_key": public, **endpoint}
    limits = {"dials": 1, "dial": LIMIT, "copying": LIMIT}
    return {"copy": {"host": host, "privateKey": private_key, "files": {}, "limits": limits}}


@pytest.fixture
def slow() -> Iterator[dict[str, Any]]:
    """A question that finds no end: its host takes the connection and says nothing."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        yield copy("slow", silent.getsockname()[1], KEY.export_private_key().decode())


def test_a_process_that_is_asked_nothing_ends_without_a_word() -> None:
    """So it is where the cluster isn't there yet, or the program ends before it asks."""
    with Processes("cluster", "hosts") as waiting:
        assert waiting.answers({"hosts": NO_HOSTS}) == ({"hosts": NOTHING}, "")
        assert waiting.end() == {"cluster": 0, "hosts": 0}


def test_what_has_no_process_is_not_inspected() -> None:
    assert Processes().answers({"hosts": NO_HOSTS, "cluster": {}}) == ({}, "")


def test_a_process_that_fails_says_why_and_the_others_answer() -> None:
    with Processes("cluster", "hosts") as waiting:
        seen, reason = waiting.answers({"hosts": NO_HOSTS, "cluster": {}})
    assert seen == {"hosts": NOTHING}
    assert reason == "the inspection of the cluster failed: KeyError: 'chart'"


def test_a_process_that_can_not_begin_says_why() -> None:
    with Processes("neither") as waiting:
        assert waiting.answers({"neither": {}})[1] == (
            "the inspection of the neither failed: KeyError: 'neither'"
        )


def test_a_process_that_answers_too_late_is_ended(
    monkeypatch: pytest.MonkeyPatch, slow: dict[str, Any]
) -> None:
    monkeypatch.setattr(processes, "LIMIT", 0)
    with Processes("hosts") as waiting:
        late = waiting._running["hosts"]
        seen, reason = waiting.answers({"hosts": slow})
        assert (seen, reason) == ({}, "the inspection of the hosts took longer than 0 s")
        assert late._process.returncode == -signal.SIGKILL
        assert waiting.ask("hosts", NO_HOSTS).result(LIMIT) == NOTHING


def test_many_questions_are_answered_side_by_side_each_to_who_asked(
    slow: dict[str, Any],
) -> None:
    with Processes("hosts") as asked:
        waiting = asked.ask("hosts", slow)
        quick = [asked.ask("hosts", copy(f"gpu-{number}")) for number in range(5)]
        faults = [one.result(LIMIT)["fault"] for one in quick]
        assert [fault.split(":")[0] for fault in faults] == [f"host gpu-{n}" for n in range(5)]
        assert asked.ask("hosts", NO_HOSTS).result(LIMIT) == NOTHING
        assert not waiting.done()
    with pytest.raises(NoAnswer):
        waiting.result(LIMIT)


def test_a_question_that_fails_takes_no_other_one_with_it() -> None:
    with Processes() as asked:
        bad, good = asked.ask("hosts", {"copy": {}}), asked.ask("hosts", NO_HOSTS)
        with pytest.raises(NoAnswer, match="KeyError: 'host'"):
            bad.result(LIMIT)
        assert good.result(LIMIT) == NOTHING


def test_a_process_that_was_killed_is_started_anew_for_the_next_question(
    slow: dict[str, Any],
) -> None:
    with Processes() as asked:
        waiting = asked.ask("hosts", slow)
        killed = asked._running["hosts"]
        killed._process.kill()
        with pytest.raises(NoAnswer, match="no message"):
            waiting.result(LIMIT)
        with pytest.raises(NoAnswer):
            killed.ask(NO_HOSTS).result(LIMIT)
        assert asked.ask("hosts", NO_HOSTS).result(LIMIT) == NOTHING


def test_a_process_that_is_interrupted_goes_on() -> None:
    """It ends with its input alone: Python would wait for the thread that reads it."""
    with Processes() as asked:
        assert asked.ask("hosts", NO_HOSTS).result(LIMIT) == NOTHING
        asked._running["hosts"]._process.send_signal(signal.SIGINT)
        assert asked.ask("hosts", NO_HOSTS).result(LIMIT) == NOTHING
        assert asked.end() == {"hosts": 0}


SUBSTITUTE = """
import json, os, sys
if sys.stdin.readline():
    print('{"number": 1, "ans', end="", flush=True)
    STOP
"""


@pytest.mark.parametrize("stop", ["os.kill(os.getpid(), 9)", "print(flush=True); sys.stdin.read()"])
def test_an_answer_that_is_cut_off_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stop: str
) -> None:
    program = tmp_path / "python"
    text = SUBSTITUTE.replace("STOP", stop)
    program.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c '{text.replace(chr(39), chr(34) * 3)}'\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with Processes("hosts") as asked:
        cut = asked._running["hosts"]
        with pytest.raises(NoAnswer, match="no message"):
            cut.ask(NO_HOSTS).result(LIMIT)
        monkeypatch.undo()
        assert asked.ask("hosts", NO_HOSTS).result(LIMIT) == NOTHING


def test_names_that_are_found_slowly_keep_no_question_from_being_read() -> None:
    """More of them than the event loop has threads; the program would wait for the pipe."""
    program = """
import asyncio, time
from components.inspection.__main__ import serve
async def answer(question):
    if question:
        await asyncio.to_thread(time.sleep, 3600)
    return {}
asyncio.run(serve(answer))
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        assert running.stdin
        assert running.stdout
        late = threading.Timer(LIMIT, running.kill)
        late.start()
        for number in range(100):
            running.stdin.write(f'{{"number": {number}, "question": {{"slow": 1}}}}\n')
        running.stdin.write('{"number": 100, "question": {}}\n')
        running.stdin.flush()
        assert running.stdout.readline() == '{"number": 100, "answer": {}}\n'
        running.stdin.close()
        assert running.wait() == 0
        late.cancel()


def test_processes_end_with_a_program_that_is_killed() -> None:
    program = """
from components.inspection.processes import Processes
made = Processes()
made.ask("hosts", {"look": {"hosts": [], "privateKey": ""}}).result()
print(made._running["hosts"]._process.pid, flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        assert running.stdout
        pid = int(running.stdout.readline())
        command = Path(f"/proc/{pid}/cmdline")
        assert b"components.inspection" in command.read_bytes()
        running.kill()
        running.wait(LIMIT)
    deadline = time.monotonic() + LIMIT
    while command.exists() and command.read_bytes():  # empty: ended, and not yet taken note of
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_word_of_a_library_comes_between_no_answers() -> None:
    program = """
import asyncio
from components.inspection.__main__ import serve
async def answer(question):
    print("a library's word")
    return question
asyncio.run(serve(answer))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT, input='{"number": 7, "question": {"a": 1}}\n', capture_output=True, text=True,
        timeout=LIMIT, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (
        '{"number": 7, "answer": {"a": 1}}\n',
        "a library's word\n",
    )


@pytest.mark.parametrize(
    ("preview", "hosts", "left"),
    [(True, ["gpu-1"], []), (False, ["gpu-1"], ["hosts"]), (False, [], [])],
)
def test_the_hosts_process_outlives_the_look_where_something_may_be_copied(
    monkeypatch: pytest.MonkeyPatch, preview: bool, hosts: list[str], left: list[str]
) -> None:
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: preview)
    declared = [copy(name)["copy"]["host"] for name in hosts]
    with Processes("cluster", "hosts") as made:
        look.look(made, {"hosts": {"look": {"hosts": declared, "privateKey": ""}}})
        assert list(made._running) == left


def test_who_asks_and_goes_takes_no_other_answer_with_it() -> None:
    """So it is where the engine cancels a hook."""
    with Processes() as made:
        assert not made.ask("hosts", copy("gpu-1")).cancel()
        assert made.ask("hosts", NO_HOSTS).result(LIMIT) == NOTHING


@pytest.mark.parametrize(
    ("value", "parts"),
    [(None, ("cluster", "hosts")), ("hosts", ("hosts",)), ("cluster", ("cluster",)), ("off", ())],
)
def test_what_is_inspected_is_what_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, value: str | None, parts: tuple[str, ...]
) -> None:
    monkeypatch.delenv(EXTENT, raising=False)
    if value:
        monkeypatch.setenv(EXTENT, value)
    assert Extent.wanted().parts == parts


def test_another_word_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXTENT, "everything")
    with pytest.raises(pulumi.RunError, match="found 'everything'; wanted: all, cluster, hosts"):
        Extent.wanted()


@pytest.mark.parametrize("program", ["__main__.py", "lab/benchmarks/hosts_stack/__main__.py"])
def test_a_program_starts_the_inspection_before_it_imports_the_rest(program: str) -> None:
    """What B2 measures, and the time of each preview, rests on it: both import side by side."""
    statements = ast.parse((ROOT / program).read_text()).body
    started = next(one for one in statements if isinstance(one, ast.Assign))
    before = [one for one in statements if one.lineno < started.lineno]
    modules = [one.module for one in before if isinstance(one, ast.ImportFrom)]
    assert ast.unparse(started) == "processes = Processes(*Extent.wanted().parts)"
    assert set(modules) <= {"__future__", "components.inspection.processes"}
    assert not [one for one in before if isinstance(one, ast.Import)]
