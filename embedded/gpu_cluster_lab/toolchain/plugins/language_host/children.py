"""Child processes of the language host: plugins, and Pulumi programs with another interpreter."""

from __future__ import annotations

import os
import queue
import signal
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pulumi.runtime.proto import language_pb2

from . import interpreter

_CHILD = str(Path(__file__).with_name("child.py"))


class Children:
    """Running child processes of the language host.

    Each child has its own process group and ends when the host ends.
    """

    def __init__(self) -> None:
        """Start with no child processes."""
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    def start(
        self, python: str, arguments: list[str], cwd: str, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start `child.py` in a new process group.

        Args:
            python: Path of the interpreter.
            arguments: Arguments for `child.py`.
            cwd: Working directory.
            options: Other arguments for `subprocess.Popen`.
        """
        child = subprocess.Popen(
            [python, "-u", _CHILD, *arguments],
            cwd=cwd,
            stdin=subprocess.PIPE,
            start_new_session=True,
            **options,
        )
        with self._lock:
            self._running.add(child)
        return child

    def finish(self, child: subprocess.Popen[bytes]) -> int:
        """Kill a child's process group; return the child's exit status."""
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        status = child.wait()
        with self._lock:
            self._running.discard(child)
        if child.stdin:
            with suppress(OSError):
                child.stdin.close()
        return status

    def end_all(self) -> None:
        """Kill all child processes and their process groups."""
        with self._lock:
            running = list(self._running)
        for child in running:
            with suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)


def _send_data(child: subprocess.Popen[bytes], data: bytes) -> None:
    if child.stdin is not None:
        child.stdin.write(data)
        child.stdin.flush()


def run_program(children: Children, python: str, request: Any, engine_address: str) -> Any:
    """Run the Pulumi program of a `RunRequest` with another interpreter; return a `RunResponse`."""
    read, write = os.pipe()
    with os.fdopen(read, "rb") as answer:
        child = children.start(
            python,
            ["program", engine_address, str(write)],
            request.info.program_directory,
            pass_fds=(write,),
        )
        os.close(write)
        data = request.SerializeToString()
        with suppress(BrokenPipeError):
            _send_data(child, struct.pack(">Q", len(data)) + data)
        encoded = answer.read()
    if encoded or child.wait() == 0:
        children.finish(child)
        return language_pb2.RunResponse.FromString(encoded)
    status = children.finish(child)
    return language_pb2.RunResponse(error=f"Program ended with exit status {status} ({python})")


def plugin_arguments(request: Any) -> list[str]:
    """Return the arguments that make `child.py` run the plugin of a `RunPluginRequest`.

    A policy pack is run by `pulumi.policy` and a package plugin by `pulumi.run.plugin`, as by the
    official host (sdk/python/cmd/pulumi-language-python/main.go, RunPlugin). Any other plugin is
    run as a script or folder.
    """
    info = request.info
    if request.kind == "analyzer":
        return ["module", "pulumi.policy", *request.args[:1], info.program_directory,
                *request.args[1:]]  # fmt: skip
    folder = Path(info.program_directory)
    if not (folder / "__main__.py").exists() and (folder / "pyproject.toml").exists():
        return ["module", "pulumi.run.plugin", folder.name, *request.args]
    return ["path", info.program_directory, *request.args]


def run_plugin(children: Children, request: Any, context: Any) -> Iterator[Any]:
    """Run a plugin; yield its output as `RunPluginResponse`s, and its exit status at the end."""
    environment = dict(os.environ)
    environment.update(pair.split("=", 1) for pair in request.env if "=" in pair)
    child = children.start(
        interpreter.find(request.info),
        plugin_arguments(request),
        request.pwd or request.info.program_directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    output: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def drain(stream: Any, message: Callable[[bytes], Any]) -> None:
        while data := os.read(stream.fileno(), 65536):
            output.put(message(data))
        output.put(None)

    context.add_callback(lambda: children.finish(child))
    for stream, message in (
        (child.stdout, lambda data: language_pb2.RunPluginResponse(stdout=data)),
        (child.stderr, lambda data: language_pb2.RunPluginResponse(stderr=data)),
    ):
        threading.Thread(target=drain, args=(stream, message), daemon=True).start()
    for _ in range(2):
        while (item := output.get()) is not None:
            yield item
    yield language_pb2.RunPluginResponse(exitcode=child.wait())
