"""Test helpers: processes of the command plugin, a host with sshd, projects for the engine."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import engine_pb2_grpc, provider_pb2, provider_pb2_grpc

ROOT = Path(__file__).resolve().parents[3]
PLUGINS = ROOT / "embedded" / "gpu_cluster_lab" / "toolchain" / "plugins"
sys.path.insert(0, str(PLUGINS))

from gpu_cluster import property_values as values  # noqa: E402

LIMIT = 30
"""Time limit of each wait in seconds."""


def until(condition: Any, what: str) -> Any:
    """Wait until `condition()` returns a true value, and return the value.

    Fail with the text `what` if this takes too long.
    """
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        if result := condition():
            return result
        time.sleep(0.02)
    pytest.fail(f"not within {LIMIT} s: {what}")


def alive(pid: int) -> bool:
    """Check that a process is running; a zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True)
class RigHost:
    """sshd on loopback that accepts one client key."""

    port: int
    host_key: str
    private_key: str
    folder: Path

    def connection(self, **changes: Any) -> dict[str, Any]:
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "user": getpass.getuser(),
            "privateKey": self.private_key,
            "hostKey": self.host_key,
            "dialErrorLimit": 10,
            "perDialTimeout": 15,
        } | changes


class _Engine(engine_pb2_grpc.EngineServicer):
    """Fake engine that stores the log messages that a plugin sends."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def Log(self, request: Any, context: Any) -> Any:
        self.messages.append(request)
        return empty_pb2.Empty()


class Failed(Exception):
    """Error: an operation of the plugin failed; the message is what a user would see."""


@dataclass
class Plugin:
    """Process of the command plugin, which is called over gRPC as the engine does."""

    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.engine = _Engine()
        self._server = grpc.server(ThreadPoolExecutor(4))
        engine_pb2_grpc.add_EngineServicer_to_server(self.engine, self._server)
        address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        environment = {k: v for k, v in os.environ.items() if k != "SSH_AUTH_SOCK"}
        self.process = subprocess.Popen(
            [str(PLUGINS / "pulumi-resource-command"), address],
            stdout=subprocess.PIPE,
            env=environment | self.environment,
        )
        assert self.process.stdout is not None
        port = int(self.process.stdout.readline())
        options = [("grpc.max_receive_message_length", 1 << 28), ("grpc.enable_http_proxy", 0)]
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=options)
        self.stub = provider_pb2_grpc.ResourceProviderStub(self._channel)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(LIMIT)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._channel.close()
        self._server.stop(None).wait()

    @property
    def shown(self) -> str:
        return "\n".join(message.message for message in self.engine.messages)

    @staticmethod
    def urn(token: str) -> str:
        return f"urn:pulumi:test::project::{token}::it"

    def _call(self, method: str, request: Any) -> Any:
        try:
            return getattr(self.stub, method)(request, timeout=LIMIT)
        except grpc.RpcError as error:
            raise Failed(error.details()) from None

    def check(self, token: str, **inputs: Any) -> tuple[dict[str, Any], dict[str, str]]:
        request = provider_pb2.CheckRequest(urn=self.urn(token), news=values.encode(inputs))
        answer = self._call("Check", request)
        # The field `property` of a failure must stay empty; otherwise the engine would print the
        # property's value.
        assert not any(failure.property for failure in answer.failures)
        reasons = (failure.reason.split(": ", 1) for failure in answer.failures)
        return values.decode(answer.inputs), {path: reason for path, reason in reasons}

    def diff(self, token: str, old: dict[str, Any], new: dict[str, Any]) -> dict[str, str]:
        request = provider_pb2.DiffRequest(
            urn=self.urn(token),
            old_inputs=values.encode(old),
            olds=values.encode(old),
            news=values.encode(new),
        )
        answer = self._call("Diff", request)
        kinds = provider_pb2.PropertyDiff.Kind
        return {path: kinds.Name(diff.kind) for path, diff in answer.detailedDiff.items()}

    def create(
        self, token: str, *, timeout: float = 0, preview: bool = False, **inputs: Any
    ) -> Any:
        request = provider_pb2.CreateRequest(
            urn=self.urn(token),
            properties=values.encode(inputs),
            timeout=timeout,
            preview=preview,
        )
        return values.decode(self._call("Create", request).properties)

    def update(self, token: str, old: dict[str, Any], **inputs: Any) -> Any:
        request = provider_pb2.UpdateRequest(
            urn=self.urn(token), id="it", olds=values.encode(old), news=values.encode(inputs)
        )
        return values.decode(self._call("Update", request).properties)

    def delete(self, token: str, state: dict[str, Any]) -> None:
        request = provider_pb2.DeleteRequest(
            urn=self.urn(token), id="it", properties=values.encode(state)
        )
        self._call("Delete", request)


class Background:
    """Thread that makes a call and stores the exception of the call."""

    def __init__(self, call: Any) -> None:
        self.error: Exception | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except Exception as error:
            self.error = error

    def join(self) -> Exception | None:
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()
        return self.error


@dataclass(frozen=True)
class Project:
    """Pulumi project in its own folder, which the real engine runs."""

    folder: Path
    environment: dict[str, str]

    def write(self, program: str) -> None:
        (self.folder / "__main__.py").write_text(program)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["pulumi", *arguments, "--non-interactive", "--stack", "dev"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, succeeds: bool = True) -> str:
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=2 * LIMIT)
        assert (process.returncode == 0) is succeeds, output
        return output

    def up(self, *arguments: str, **options: Any) -> str:
        return self.run("up", "--yes", "--skip-preview", *arguments, **options)
