"""Tests of importing the SDK's gRPC messages without the SDK.

A plugin starts with only the messages. A Pulumi program then imports the whole SDK, which must use
the same message classes.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.toolchain.plugins.rig import LIMIT, PLUGINS

ALONE = """
import sys
import messages
messages.alone()
import {server}
assert not {{"pulumi.resource", "pulumi.automation"}} & set(sys.modules)
"""
WITH_SDK = """
from pulumi.runtime.proto import language_pb2
messages.with_sdk()
import pulumi
import pulumi.runtime.proto.language_pb2 as again
import pulumi_command
from pulumi.runtime import proto
assert language_pb2 is again is proto.language_pb2
assert pulumi.runtime.settings.engine_pb2_grpc is proto.engine_pb2_grpc
assert pulumi.runtime.proto is proto
assert pulumi.Output.secret and pulumi_command.Provider
"""


def run(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=PLUGINS,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("server", ["command_provider.server", "language_host.server"])
def test_a_plugin_imports_the_messages_without_the_sdk(server: str) -> None:
    run(ALONE.format(server=server))


def test_a_program_has_the_sdk_with_the_messages_of_its_host() -> None:
    run(ALONE.format(server="language_host.server") + WITH_SDK)
