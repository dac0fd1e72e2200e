"""Run a user's Pulumi program in this process."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import runpy
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc
from pulumi import log
from pulumi.errors import RunError
from pulumi.runtime import reset_options, run_in_stack, set_all_config
from pulumi.runtime.proto import language_pb2

_THREADS_PER_OPERATION = 4
"""Threads for RPCs per parallel operation, as in the SDK (pulumi.automation._server)."""


def entry(info: Any) -> Path:
    """Return the program's path: `entry_point` in `program_directory`, with `.py` if needed."""
    path = Path(info.program_directory, info.entry_point or ".")
    module = path.with_name(path.name + ".py")
    return module if not path.exists() and module.exists() else path


_LIBRARIES = (Path(__file__).parent, Path(sys.prefix))
"""Folders of the host and of its libraries; they may be inside the program's folder."""


def user_trace(error: BaseException, directory: str) -> str:
    """Return the traceback of an error, from the first frame that belongs to the user's program.

    If no frame belongs to the program, return the whole traceback.

    Args:
        error: The error that the program raised.
        directory: The program's folder.
    """
    library_folders = [folder for folder in _LIBRARIES if folder.is_relative_to(directory)]
    frame: TracebackType | None = error.__traceback__
    while frame is not None:
        file = Path(frame.tb_frame.f_code.co_filename)
        if file.is_relative_to(directory) and not any(map(file.is_relative_to, library_folders)):
            break
        frame = frame.tb_next
    lines = traceback.format_exception(type(error), error, frame or error.__traceback__)
    return "".join(lines)


def run(request: Any, engine_address: str) -> Any:
    """Run the program of a `RunRequest`; return a `RunResponse`.

    If an error was already shown to the user, the response has `bail` set, as in the official host.
    """
    return contextvars.copy_context().run(_run_request, request, engine_address)


def _run_request(request: Any, engine_address: str) -> Any:
    directory = request.info.program_directory
    reset_options(
        project=request.project,
        stack=request.stack,
        root_directory=request.info.root_directory,
        parallel=request.parallel,
        engine_address=engine_address,
        monitor_address=request.monitor_address,
        preview=request.dryRun,
        organization=request.organization or "organization",
    )
    set_all_config(dict(request.config), list(request.configSecretKeys))
    # asyncio would print errors of tasks on standard error, although they are reported below.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    os.chdir(directory)
    program = str(entry(request.info))
    sys.path.insert(0, directory)
    sys.argv = [program, *request.args]

    loop = asyncio.new_event_loop()
    workers = max(request.parallel, 1) * _THREADS_PER_OPERATION
    loop.set_default_executor(ThreadPoolExecutor(max_workers=min(workers, 256)))
    loop.set_exception_handler(_stop_on_rpc_error)
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(run_in_stack(lambda: _execute(program)))
    except BaseException as error:
        return _report_error(error, directory)
    finally:
        _close(loop)
        sys.stdout.flush()
        sys.stderr.flush()
    return language_pb2.RunResponse()


def _execute(program: str) -> None:
    runpy.run_path(program, run_name="__main__")


def _report_error(error: BaseException, directory: str) -> Any:
    if isinstance(error, SystemExit):
        if error.code in (None, 0):
            return language_pb2.RunResponse()
        return language_pb2.RunResponse(
            error=f"Program exited with non-zero exit code: {error.code}"
        )
    if isinstance(error, grpc.RpcError) and error.code() == grpc.StatusCode.UNAVAILABLE:
        # The engine has already printed why it ends this run.
        return language_pb2.RunResponse(bail=True)
    if isinstance(error, KeyboardInterrupt):
        return language_pb2.RunResponse(bail=True)
    if isinstance(error, RunError):
        message = str(error)
    elif isinstance(error, grpc.RpcError):
        message = f"RPC error: {error.details()}"
    else:
        message = f"Program failed with an unhandled exception:\n{user_trace(error, directory)}"
    with suppress(grpc.RpcError):
        log.error(message)
    return language_pb2.RunResponse(bail=True)


def _stop_on_rpc_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if isinstance(context.get("exception"), grpc.RpcError):
        loop.stop()
    else:
        loop.default_exception_handler(context)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the tasks that the program left running, so that asyncio prints nothing about them."""
    pending = asyncio.all_tasks(loop)
    for task in pending:
        task.cancel()
    with suppress(BaseException):
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
    loop.close()
