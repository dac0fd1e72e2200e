"""The workaround for slow waiting in Pulumi's SDK: calls are awaited one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pulumi_command
import pytest
from pulumi.runtime import mocks
from pulumi.runtime.settings import _get_rpc_manager
from pulumi.runtime.stack import run_pulumi_func

from gpu_cluster.workarounds import await_calls_in_turn
from tests.mocks import LOOP, Recorder

COMMANDS = 40


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], int]:
    """Return a function that runs a program and counts how often the SDK checks its outputs."""

    def run(in_turn: bool) -> int:
        seen = 0

        async def wait(outputs: Any, **more: Any) -> Any:
            nonlocal seen
            seen += len(outputs)
            return await waited(outputs, **more)

        def program() -> None:
            for number in range(COMMANDS):
                pulumi_command.local.Command(f"c-{number}", create=":", triggers=[number])
            _get_rpc_manager().clear()  # Remove the calls that the mocks have already started.
            if in_turn:
                await_calls_in_turn()

        waited = asyncio.wait
        recorder = Recorder()
        with monkeypatch.context() as patched:
            asyncio.set_event_loop(LOOP)
            try:
                mocks.set_mocks(recorder, project="gpu-cluster", stack="test", preview=False)
                patched.setattr(asyncio, "wait", wait)
                LOOP.run_until_complete(run_pulumi_func(program))
            finally:
                asyncio.set_event_loop(None)
        assert len(recorder.of("command:local:Command")) == COMMANDS
        return seen

    return run


def test_outputs_are_not_looked_at_anew_for_each_call(looks: Callable[[bool], int]) -> None:
    assert looks(False) > 10 * looks(True)
