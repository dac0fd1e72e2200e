"""gRPC server of the component package, which accepts calls only from the Pulumi engine."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import pulumi
from pulumi.provider.server import ProviderServicer
from pulumi.runtime.proto import provider_pb2_grpc

from gpu_cluster.package import local_caller
from gpu_cluster.package.provider import PackageProvider

Refusal = Callable[[str, int], str]
"""Returns why a call must be refused, for the caller's address and the server's port."""

_OPTIONS = [("grpc.max_receive_message_length", 400 * 1024 * 1024)]
"""The size of the engine's messages, as Pulumi's SDKs have it."""


def place(folder: Path) -> None:
    """Make the symbolic link in Pulumi's home folder point to the folder of the programs' script.

    The state holds no path of a machine, so Commands search this link, too
    (`gpu_cluster.operation`). The link is replaced as a whole: a Command that runs meanwhile finds
    the old or the new folder.

    Args:
        folder: Folder that contains the script `gpu-cluster-program`.
    """
    home = os.environ.get("PULUMI_HOME")
    pulumi_folder = Path(home) if home else Path.home() / ".pulumi"
    pulumi_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    link = pulumi_folder / "gpu-cluster"
    temporary = pulumi_folder / f".gpu-cluster.{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(folder)
    temporary.replace(link)


class _OwnUser(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """gRPC interceptor that rejects calls from other users of this machine.

    Such a call would declare resources and read a kubeconfig, which can name a program to run.

    Attributes:
        port: Port of the server.
    """

    def __init__(self, refusal: Refusal) -> None:
        self.port = 0
        self._refusal = refusal

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = await continuation(details)
        if handler is None:
            return None

        async def checked(requests: AsyncIterator[Any], context: Any) -> Any:
            if reason := self._refusal(context.peer(), self.port):
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, reason)
            return await handler.unary_unary(await anext(requests), context)

        # As a stream, so that the message of a rejected call is not taken into memory.
        return grpc.stream_unary_rpc_method_handler(
            checked, handler.request_deserializer, handler.response_serializer
        )


class _Servicer(ProviderServicer):
    """Server of the Pulumi SDK that reports cluster and host errors without a traceback."""

    async def Construct(self, request: Any, context: Any) -> Any:
        try:
            return await super().Construct(request, context)
        except pulumi.RunError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))


async def started(engine: str, refusal: Refusal) -> tuple[Any, int]:
    """Start a server of the package; return it and its port on 127.0.0.1.

    Args:
        engine: Address of the engine.
        refusal: Returns why a call must be refused; empty if it is allowed.
    """
    own_user = _OwnUser(refusal)
    server = grpc.aio.server(interceptors=(own_user,), options=_OPTIONS)
    servicer = _Servicer(PackageProvider(), [], engine_address=engine)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    own_user.port = server.add_insecure_port("127.0.0.1:0")
    if own_user.port == 0:
        sys.exit("gpucluster: no free port on 127.0.0.1")
    await server.start()
    return server, own_user.port


def run() -> None:
    """Serve the package as the installed plugin `pulumi-resource-gpucluster`."""
    serve(Path(sys.executable).parent, sys.argv[1:])


def serve(folder: Path, arguments: Sequence[str]) -> None:
    """Serve the package until the engine ends this process.

    Args:
        folder: Folder that contains the script `gpu-cluster-program`.
        arguments: The command line: the engine's address, and flags that are not used.
    """
    engine = next((word for word in arguments if not word.startswith("-")), "")
    place(folder)

    async def serve_calls() -> None:
        server, port = await started(engine, local_caller.refusal)
        print(port, flush=True)
        await server.wait_for_termination()

    asyncio.run(serve_calls())
