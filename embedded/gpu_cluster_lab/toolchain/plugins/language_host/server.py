"""gRPC server of the project's own language host for Python."""

from __future__ import annotations

import importlib.metadata
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType
from typing import Any, NoReturn

import grpc
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from gpu_cluster.machine.tool import ToolchainError
from gpu_cluster.package import local_caller
from gpu_cluster_lab import toolchain
from gpu_rules.faults import FaultError

from . import children, dependencies, interpreter, linking, program

_OPTIONS = (("grpc.max_receive_message_length", 400 << 20),)
"""The same maximum message size as the engine's (pulumi/pulumi, sdk/go/common/util/rpcutil)."""
_PARENT_POLL = 0.5
"""Seconds between two checks that the engine is still running."""
_SIGNAL_POLL = 0.1
"""Seconds after which the waiting main thread wakes up to handle signals.

Python runs signal handlers only in the main thread. A signal that arrives just before the main
thread waits, or in another thread, does not wake it.
"""

_GENERATOR = "pulumi-generate-python"
"""The tool that generates SDKs."""
_GENERATION_LIMIT = 300
"""Time limit in seconds for the generation of one SDK."""

_Task = tuple[Any, "Future[Any]"]


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """Implementation of Pulumi's LanguageRuntime service, for one engine.

    A program for the interpreter of this process runs in the main thread.
    """

    def __init__(self, engine_address: str) -> None:
        """Store the engine's address, which is empty if it is not known yet."""
        self.engine_address = engine_address
        self.children = children.Children()
        self.programs: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        self._used = threading.Event()

    def Handshake(self, request: Any, context: Any) -> Any:
        """Store the engine's address."""
        self.engine_address = request.engine_address or self.engine_address
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        """Return the version of the installed Pulumi SDK, as the language host's version."""
        return plugin_pb2.PluginInfo(version=_sdk_version())

    def GetRequiredPackages(self, request: Any, context: Any) -> Any:
        """Return an empty list of packages: the engine loads a plugin when a resource needs it."""
        return language_pb2.GetRequiredPackagesResponse()

    def GetRequiredPlugins(self, request: Any, context: Any) -> Any:
        """Return an empty list of plugins: the engine loads a plugin when a resource needs it."""
        return language_pb2.GetRequiredPluginsResponse()

    def RuntimeOptionsPrompts(self, request: Any, context: Any) -> Any:
        """Return an empty list of prompts for `pulumi new`."""
        return language_pb2.RuntimeOptionsResponse()

    def About(self, request: Any, context: Any) -> Any:
        """Return path and version of the Python interpreter for the program."""
        python = _interpreter(request.info, context)
        return language_pb2.AboutResponse(
            executable=python, version=dependencies.python_version(python)
        )

    def GetProgramDependencies(self, request: Any, context: Any) -> Any:
        """Return the packages that are installed for the program's interpreter."""
        packages = dependencies.installed(_interpreter(request.info, context))
        return language_pb2.GetProgramDependenciesResponse(
            dependencies=[
                language_pb2.DependencyInfo(name=name, version=version)
                for name, version in packages
            ]
        )

    def InstallDependencies(self, request: Any, context: Any) -> Iterator[Any]:
        """Install the program's dependencies; yield the output line by line."""
        try:
            for line in dependencies.install(request.info):
                yield language_pb2.InstallDependenciesResponse(stdout=line)
        except subprocess.CalledProcessError as error:
            context.abort(grpc.StatusCode.INTERNAL, f"{error.cmd}: exit status {error.returncode}")

    def Run(self, request: Any, context: Any) -> Any:
        """Run a Pulumi program.

        The first program for the interpreter of this process runs in the main thread. Any other
        program runs in a child process.
        """
        python = _interpreter(request.info, context)
        if not interpreter.is_own(python) or self._used.is_set():
            return children.run_program(self.children, python, request, self.engine_address)
        self._used.set()
        done: Future[Any] = Future()
        self.programs.put((request, done))
        return done.result()

    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:
        """Run a plugin such as a policy pack; yield its output and exit status."""
        try:
            yield from children.run_plugin(self.children, request, context)
        except interpreter.InterpreterNotFound as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))

    def GeneratePackage(self, request: Any, context: Any) -> Any:
        """Write the SDK of a package to a folder by Pulumi's own generator."""
        try:
            program = toolchain.ensure(_GENERATOR)[_GENERATOR].path
            done = subprocess.run(
                [program],
                input=request.SerializeToString(),
                capture_output=True,
                timeout=_GENERATION_LIMIT,
                check=True,
            )
        except (ToolchainError, OSError, subprocess.TimeoutExpired) as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        except subprocess.CalledProcessError as error:
            context.abort(grpc.StatusCode.INTERNAL, error.stderr.decode(errors="replace"))
        return language_pb2.GeneratePackageResponse.FromString(done.stdout)

    def Link(self, request: Any, context: Any) -> Any:
        """Add generated SDKs to the program's requirements; return how to import them."""
        try:
            shown = linking.link(request.info, [each.path for each in request.packages])
        except (FaultError, OSError) as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            raise
        return language_pb2.LinkResponse(import_instructions=shown)

    def Cancel(self, request: Any, context: Any) -> Any:
        """End all child processes, as the engine requests."""
        from google.protobuf import empty_pb2

        self.children.end_all()
        return empty_pb2.Empty()


def _interpreter(info: Any, context: Any) -> str:
    try:
        return interpreter.find(info)
    except interpreter.InterpreterNotFound as error:
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        raise


class _OwnUser(grpc.ServerInterceptor):  # type: ignore[misc]
    """gRPC interceptor that rejects calls by other users of this machine.

    Attributes:
        port: Port of the server.
    """

    port = 0

    def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = continuation(details)
        if handler is None:
            return None
        behaviour = handler.unary_stream or handler.unary_unary

        def checked(requests: Iterator[Any], context: Any) -> Any:
            if reason := local_caller.refusal(context.peer(), self.port):
                context.abort(grpc.StatusCode.PERMISSION_DENIED, local_caller.message(reason))
            return behaviour(next(requests), context)

        # As a stream, so that the message of a rejected call is not taken into memory.
        kind = "stream_stream" if handler.unary_stream else "stream_unary"
        return getattr(grpc, f"{kind}_rpc_method_handler")(
            checked, handler.request_deserializer, handler.response_serializer
        )


def _sdk_version() -> str:
    return importlib.metadata.version("pulumi")


def _watch_parent(host: LanguageHost) -> None:
    """Start a thread that ends the language host when the engine has ended, even by SIGKILL.

    The thread notices this because this process then gets another parent process.
    """
    engine = os.getppid()

    def wait() -> None:
        while os.getppid() == engine:
            time.sleep(_PARENT_POLL)
        _end_host(host)

    threading.Thread(target=wait, daemon=True, name="engine-watch").start()


def _end_host(host: LanguageHost) -> NoReturn:
    host.children.end_all()
    sys.stdout.flush()
    os._exit(0)


def main(arguments: list[str]) -> None:
    """Run the server until the engine ends this process.

    The engine starts plugins in separate process groups, so Ctrl-C in a terminal does not reach
    them. To end a plugin, the engine sends SIGINT, waits 5 s and then sends SIGKILL. Here both
    SIGINT and SIGTERM end the language host and its child processes, without any output.
    """
    host = LanguageHost(arguments[-1] if arguments else "")
    _watch_parent(host)

    def terminate(number: int, frame: FrameType | None) -> None:
        _end_host(host)

    signal.signal(signal.SIGTERM, terminate)
    signal.signal(signal.SIGINT, terminate)
    own_user = _OwnUser()
    server = grpc.server(
        ThreadPoolExecutor(max_workers=16),
        interceptors=(own_user,),
        options=_OPTIONS,
    )
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    if port == 0:
        sys.exit("pulumi-language-python: no free port on 127.0.0.1")
    own_user.port = port
    server.start()
    print(port, flush=True)
    while True:
        try:
            request, done = host.programs.get(timeout=_SIGNAL_POLL)
        except queue.Empty:
            continue
        done.set_result(program.run(request, host.engine_address))
