"""Attack: another user of the engineer's machine calls the project's Pulumi plugins."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, provider_pb2, provider_pb2_grpc

from gpu_cluster import property_values as values
from gpu_cluster.package import local_caller
from tests.toolchain.plugins.rig import LIMIT, PLUGINS, ROOT

STRANGER = 65534
RELAY = """
import socket, sys, threading
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
def copy(a, b):
    while data := a.recv(65536):
        b.sendall(data)
while True:
    near, _ = server.accept()
    far = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    for pair in ((near, far), (far, near)):
        threading.Thread(target=copy, args=pair, daemon=True).start()
"""
"""Program of a TCP relay that another user runs, so that its connections belong to that user."""


@contextmanager
def served(name: str) -> Iterator[int]:
    """Start the process of a Pulumi plugin and yield the plugin's port."""
    with started([PLUGINS / name, "127.0.0.1:1"]) as (_, port):
        yield port


@contextmanager
def started(command: Sequence[str | Path]) -> Iterator[tuple[int, int]]:
    """Start a gRPC server of this project; yield the number of its process, and its port."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(LIMIT)
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def dialled_by_a_stranger(port: int) -> Iterator[int]:
    """Yield a port on which a process of another user relays connections to `port`."""
    if os.geteuid() != 0:
        pytest.skip("not root: no second user to call as")
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    relay = subprocess.Popen(
        [python, "-I", "-c", RELAY, str(port)],
        user=STRANGER,
        group=STRANGER,
        extra_groups=[],
        cwd="/",
        stdout=subprocess.PIPE,
    )
    try:
        assert relay.stdout is not None
        yield int(relay.stdout.readline())
    finally:
        relay.send_signal(signal.SIGKILL)
        relay.wait(LIMIT)
        assert relay.stdout is not None
        relay.stdout.close()


def create(port: int, mark: Path) -> Any:
    """Ask the plugin at `port` to create a `command:local:Command`; return the response."""
    request = provider_pb2.CreateRequest(
        urn="urn:pulumi:test::project::command:local:Command::it",
        properties=values.encode({"create": f"touch {mark}"}),
    )
    with grpc.insecure_channel(
        f"127.0.0.1:{port}", options=(("grpc.enable_http_proxy", 0),)
    ) as channel:
        return provider_pb2_grpc.ResourceProviderStub(channel).Create(request, timeout=LIMIT)


def test_the_command_plugin_runs_nothing_for_another_user(tmp_path: Path) -> None:
    mark = tmp_path / "owned"
    with served("pulumi-resource-command") as port, dialled_by_a_stranger(port) as other:
        with pytest.raises(grpc.RpcError) as error:
            create(other, mark)
        assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert f"found a call by user {STRANGER}" in error.value.details()
        assert not mark.exists()
        create(port, mark)  # The plugin accepts a call by its own user.
        assert mark.exists()


def test_the_language_host_runs_nothing_for_another_user(tmp_path: Path) -> None:
    (tmp_path / "__main__.py").write_text("open('owned', 'w')\n")
    info = language_pb2.ProgramInfo(
        root_directory=str(tmp_path), program_directory=str(tmp_path), entry_point="."
    )
    plugin = language_pb2.RunPluginRequest(info=info, pwd=str(tmp_path))
    program = language_pb2.RunRequest(info=info, pwd=str(tmp_path))
    with served("pulumi-language-python") as port, dialled_by_a_stranger(port) as other:
        with grpc.insecure_channel(
            f"127.0.0.1:{other}", options=(("grpc.enable_http_proxy", 0),)
        ) as channel:
            stub = language_pb2_grpc.LanguageRuntimeStub(channel)
            for call in (
                lambda: list(stub.RunPlugin(plugin, timeout=LIMIT)),
                lambda: stub.Run(program, timeout=LIMIT),
            ):
                with pytest.raises(grpc.RpcError) as error:
                    call()
                assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert not (tmp_path / "owned").exists()
        with grpc.insecure_channel(
            f"127.0.0.1:{port}", options=(("grpc.enable_http_proxy", 0),)
        ) as channel:
            list(language_pb2_grpc.LanguageRuntimeStub(channel).RunPlugin(plugin, timeout=LIMIT))
        assert (tmp_path / "owned").exists()


PACKAGE = """
import asyncio
from gpu_cluster.package.serving import started
async def serve():
    server, port = await started("127.0.0.1:1", lambda peer, port: "found a call by a stranger")
    print(port, flush=True)
    await server.wait_for_termination()
asyncio.run(serve())
"""
SERVERS: Mapping[str, tuple[Sequence[str | Path], str]] = {
    "command": (
        [PLUGINS / "pulumi-resource-command", "127.0.0.1:1"],
        "/pulumirpc.ResourceProvider/Create",
    ),
    "language": (
        [PLUGINS / "pulumi-language-python", "127.0.0.1:1"],
        "/pulumirpc.LanguageRuntime/Run",
    ),
    "package": ([sys.executable, "-c", PACKAGE], "/pulumirpc.ResourceProvider/Construct"),
}
"""Command line of each gRPC server of this project, and a method of its service."""
MIB = 1024 * 1024


def peak(process: int) -> int:
    """Return the largest number of bytes that a process has had in memory."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


@pytest.mark.parametrize("name", SERVERS)
def test_the_message_of_another_user_is_not_taken_into_memory(name: str) -> None:
    command, method = SERVERS[name]
    options = (("grpc.enable_http_proxy", 0), ("grpc.max_send_message_length", -1))
    with started(command) as (process, port), dialled_by_a_stranger(port) as other:
        before = peak(process)
        for _ in range(2):
            with grpc.insecure_channel(f"127.0.0.1:{other}", options=options) as channel:
                with pytest.raises(grpc.RpcError) as error:
                    channel.unary_unary(method)(bytes(150 * MIB), timeout=LIMIT)
                assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert peak(process) - before < 50 * MIB


HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
LINE = "   0: 0100007F:{0:04X} 0100007F:{1:04X} {2} 0:0 00:0 0 {3:5d} 0 {4} 1 0 20 4 30 10 -1\n"


@pytest.mark.parametrize(
    ("state", "user", "inode", "taken"),
    [
        ("01", os.geteuid(), 77, True),
        ("01", os.geteuid() + 1, 77, False),
        # The kernel lists a socket that its process has closed under the user root.
        ("01", os.geteuid(), 0, False),
        ("06", os.geteuid(), 0, False),  # State 06 of a socket in the kernel's table is TIME_WAIT.
        ("08", os.geteuid(), 77, False),
    ],
)
def test_a_call_counts_by_the_living_socket_it_comes_from(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    user: int,
    inode: int,
    taken: bool,
) -> None:
    table = tmp_path / "tcp"
    table.write_text(HEAD + LINE.format(40000, 5000, state, user, inode))
    monkeypatch.setattr(local_caller, "TABLES", {table: "", tmp_path / "none": "0"})
    assert (local_caller.refusal("ipv4:127.0.0.1:40000", 5000) == "") is taken
    assert local_caller.refusal("ipv4:127.0.0.1:40000", 5001)
    assert local_caller.refusal("ipv6:[::1]:40000", 5000)
    assert local_caller.refusal("unix:/x", 5000)


def test_a_call_counts_by_its_socket_alone_where_the_kernel_tells_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "tcp"
    # The socket table is empty, so the caller's user can only be found through netlink.
    table.write_text(HEAD)
    monkeypatch.setattr(local_caller, "TABLES", {table: "", tmp_path / "none": "0"})
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # The engine, a Go program, connects over IPv4; gRPC's C core connects over IPv6 with a
        # mapped IPv4 address.
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:7f00:1")):
            with socket.socket(family) as caller:
                caller.connect((address, port))
                taken, peer = server.accept()
                name = f"ipv4:{peer[0]}:{peer[1]}"
                if refused := local_caller.refusal(name, port):
                    taken.close()
                    pytest.skip(f"this kernel has no sock_diag for TCP: {refused}")
                with monkeypatch.context() as strange:
                    strange.setattr(os, "geteuid", lambda: STRANGER)
                    assert "found a call by user" in local_caller.refusal(name, port)
            # Now the caller has closed its socket, so its user is unknown.
            assert "unknown" in local_caller.refusal(name, port)
            taken.close()
