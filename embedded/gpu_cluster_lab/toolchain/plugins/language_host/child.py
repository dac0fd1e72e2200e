"""Child process that runs a module or script, and ends when the language host ends.

Usage: `python -u child.py module|path|program <name> [arguments…]`. Standard input is a pipe to
which only the language host can write. When the host has ended, even by SIGKILL, this process reads
an end of file. `program <engine address> <descriptor>` first reads a serialized `RunRequest` from
that pipe, and writes the `RunResponse` to the file descriptor.
"""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import struct
import sys
import threading
from pathlib import Path


def watch(descriptor: int) -> None:
    """Start a thread that ends this process when a file descriptor reaches end of file."""

    def wait() -> None:
        while os.read(descriptor, 4096):
            pass
        os._exit(0)

    threading.Thread(target=wait, daemon=True, name="parent-watch").start()


def _run_program(engine_address: str, response: int) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    language_pb2 = importlib.import_module("pulumi.runtime.proto.language_pb2")
    program = importlib.import_module("language_host.program")
    del sys.path[0]
    with os.fdopen(os.dup(0), "rb", buffering=0) as pipe:
        (size,) = struct.unpack(">Q", _exactly(pipe.fileno(), 8))
        request = language_pb2.RunRequest.FromString(_exactly(pipe.fileno(), size))
    watch(0)
    answer = program.run(request, engine_address)
    with os.fdopen(response, "wb") as out:
        out.write(answer.SerializeToString())


def _exactly(descriptor: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = os.read(descriptor, size - len(data))
        if not chunk:
            raise EOFError("the language host closed the pipe before the whole request was sent")
        data += chunk
    return data


def main() -> None:
    """Run the module, script or Pulumi program that the command line names."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    del sys.path[0]
    kind, name, *arguments = sys.argv[1:]
    if kind == "program":
        _run_program(name, int(arguments[0]))
        return
    watch(0)
    sys.argv = [name, *arguments]
    if kind == "module":
        # Put the current folder first in the search path of modules, as `python -m` does.
        sys.path.insert(0, "")
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(name, run_name="__main__")


if __name__ == "__main__":
    main()
