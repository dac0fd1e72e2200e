"""gRPC server of the command plugin, with one event loop and one task per operation."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from gpu_cluster import property_values as values
from gpu_cluster.package import local_caller

from . import VERSION, difference, inputs, operations
from .engine_log import EngineLog, ResourceLog
from .output import CommandError

_PARENT_POLL = 0.5
"""Seconds between two checks that the engine is still running."""

SHUTDOWN_LIMIT = 4.5
"""Seconds that running commands have to end after SIGINT, less than `ENGINE_LIMIT`."""
ENGINE_LIMIT = 5
"""Seconds between the engine's SIGINT to a plugin and its SIGKILL.

Source: pulumi v3.274.1, sdk/go/common/resource/plugin/plugin.go, ExecPlugin.
"""

_OPTIONS = (("grpc.max_receive_message_length", 400 << 20),)
"""The same maximum message size as the engine's (pulumi/pulumi, sdk/go/common/util/rpcutil)."""

_UNKNOWN_OUTPUTS = dict.fromkeys(("stdout", "stderr"), values.UNKNOWN)

T = TypeVar("T")


def token_of(urn: str) -> str:
    """Return the resource type in a URN.

    The type is the last one in `urn:pulumi:stack::project::A$command:…::name`.
    """
    return urn.split("::")[2].rsplit("$", 1)[-1]


class CommandProvider(provider_pb2_grpc.ResourceProviderServicer):
    """Implementation of Pulumi's ResourceProvider service, for one engine."""

    def __init__(self, engine_address: str) -> None:
        """Store the engine's address, which is empty if it is not known yet."""
        self._engine_address = engine_address
        self._log: EngineLog | None = None
        self._running: set[asyncio.Future[Any]] = set()
        self._cancelled = False

    async def Handshake(self, request: Any, context: Any) -> Any:
        """Store the engine's address; return which features of the protocol the plugin supports."""
        self._engine_address = request.engine_address or self._engine_address
        return provider_pb2.ProviderHandshakeResponse(
            accept_secrets=True, accept_resources=True, accept_outputs=False
        )

    async def GetPluginInfo(self, request: Any, context: Any) -> Any:
        """Return the plugin's version."""
        return plugin_pb2.PluginInfo(version=VERSION)

    async def GetSchema(self, request: Any, context: Any) -> Any:
        """Return a schema with the inputs, and with the outputs that programs in YAML read."""
        resources: dict[str, Any] = {
            token: {
                "inputProperties": {name: inputs.SCHEMAS[kind] for name, kind in names.items()},
                "properties": dict.fromkeys(("stdout", "stderr"), inputs.SCHEMAS["string"]),
                "required": ["stderr", "stdout"],
            }
            for token, names in inputs.INPUTS.items()
        }
        schema = {"name": "command", "version": VERSION, "resources": resources}
        return provider_pb2.GetSchemaResponse(schema=json.dumps(schema))

    async def CheckConfig(self, request: Any, context: Any) -> Any:
        """Accept the provider's configuration unchanged."""
        return provider_pb2.CheckResponse(inputs=request.news)

    async def DiffConfig(self, request: Any, context: Any) -> Any:
        """Report no change, because the provider's configuration is always empty."""
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    async def Configure(self, request: Any, context: Any) -> Any:
        """Return which features of the protocol the plugin supports."""
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True, acceptResources=True, acceptOutputs=False, supportsPreview=True
        )

    async def Check(self, request: Any, context: Any) -> Any:
        """Return a resource's inputs with defaults, and the faults of these inputs."""
        token = token_of(request.urn)
        if token not in inputs.INPUTS:
            await context.abort(
                grpc.StatusCode.NOT_FOUND, f"{token}: not served by this plugin: commands only"
            )
        checked, failures = inputs.check(token, values.decode(request.news))
        return provider_pb2.CheckResponse(
            inputs=values.encode(checked),
            failures=_failures(failures),
        )

    async def Diff(self, request: Any, context: Any) -> Any:
        """Compare the old and the new inputs; a change of `triggers` replaces the resource."""
        token = token_of(request.urn)
        old = values.decode(request.old_inputs)
        # An engine may send no old inputs. Then the inputs are taken from the old outputs.
        if not old:
            known_inputs = inputs.INPUTS[token]
            old = {k: v for k, v in values.decode(request.olds).items() if k in known_inputs}
        new = values.decode(request.news)
        for name in request.ignoreChanges:
            if name in old:
                new[name] = old[name]
        paths = difference.compare(old, new)
        kinds = {path: _kind(path, kind) for path, kind in paths.items()}
        return provider_pb2.DiffResponse(
            changes=(
                provider_pb2.DiffResponse.DIFF_SOME
                if paths
                else provider_pb2.DiffResponse.DIFF_NONE
            ),
            replaces=[path for path, kind in kinds.items() if kind.endswith("_REPLACE")],
            diffs=sorted({_top(path) for path in paths}),
            detailedDiff={
                path: provider_pb2.PropertyDiff(
                    kind=provider_pb2.PropertyDiff.Kind.Value(kind), inputDiff=True
                )
                for path, kind in kinds.items()
            },
            hasDetailedDiff=True,
        )

    async def Create(self, request: Any, context: Any) -> Any:
        """Run the resource's `create` command; in a preview return unknown outputs."""
        new = values.decode(request.properties)
        if request.preview:
            return provider_pb2.CreateResponse(properties=values.encode(new | _UNKNOWN_OUTPUTS))
        outputs = await self._apply(request, context, new, {}, "create")
        name = request.urn.split("::", 3)[3]
        return provider_pb2.CreateResponse(
            id=name + secrets.token_hex(4), properties=values.encode(new | outputs)
        )

    async def Update(self, request: Any, context: Any) -> Any:
        """Run the resource's `update` command; in a preview return unknown outputs."""
        new, old = values.decode(request.news), values.decode(request.olds)
        for name in request.ignoreChanges:
            if name in old:
                new[name] = old[name]
        if request.preview:
            return provider_pb2.UpdateResponse(properties=values.encode(new | _UNKNOWN_OUTPUTS))
        outputs = await self._apply(request, context, new, old, "update")
        return provider_pb2.UpdateResponse(properties=values.encode(new | outputs))

    async def Delete(self, request: Any, context: Any) -> Any:
        """Run the resource's `delete` command, if the resource has one."""
        old = values.decode(request.properties)
        if old.get("delete") is not None:
            await self._apply(request, context, old, old, "delete")
        return empty_pb2.Empty()

    async def Read(self, request: Any, context: Any) -> Any:
        """Return the resource unchanged, because a command has no state that could be read."""
        return provider_pb2.ReadResponse(
            id=request.id, properties=request.properties, inputs=request.inputs
        )

    async def Cancel(self, request: Any, context: Any) -> Any:
        """End all running commands, as the engine requests."""
        self.cancel()
        return empty_pb2.Empty()

    def cancel(self) -> None:
        """End all running commands and reject new commands."""
        self._cancelled = True
        for task in self._running:
            task.cancel()

    async def idle(self) -> None:
        """Wait until no command is running."""
        if self._running:
            await asyncio.wait(self._running)

    def _resource_log(self, urn: str) -> ResourceLog:
        if self._log is None:
            self._log = EngineLog(self._engine_address)
        return ResourceLog(self._log, urn)

    async def _apply(
        self,
        request: Any,
        context: Any,
        new: values.Properties,
        old: values.Properties,
        step: str,
    ) -> values.Properties:
        log = self._resource_log(request.urn)
        job = operations.Job(token_of(request.urn), new, old, log)

        return await self._guarded(operations.run_command(job, step), log, request.timeout, context)

    async def _guarded(self, work: Awaitable[T], log: ResourceLog, limit: float, context: Any) -> T:
        """Run `work` as a task, which is cancelled by `Cancel` or by the resource's timeout."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        if self._cancelled:
            task.cancel()
        message = "cancelled"
        try:
            async with asyncio.timeout(limit or None):
                return await task
        except TimeoutError:
            message = f"not done within the resource's timeout of {limit:g} s; it was ended"
        except CommandError as error:
            message = str(error)
        except asyncio.CancelledError:
            # The task was cancelled although `Cancel` was not called: the engine has dropped this
            # call.
            if not self._cancelled:
                raise
        finally:
            self._running.discard(task)
            await log.flush()
        await context.abort(grpc.StatusCode.UNKNOWN, message)
        raise AssertionError("abort returned")


def _failures(failures: inputs.Failures) -> list[Any]:
    """Return input faults as gRPC messages for the engine, with the property path in the text.

    The field for the property path stays empty: if it is set, the engine also prints the property's
    value, even a secret one.
    """
    return [provider_pb2.CheckFailure(reason=f"{path}: {reason}") for path, reason in failures]


def _top(path: str) -> str:
    return path.split(".", 1)[0].split("[", 1)[0]


def _kind(path: str, kind: str) -> str:
    """Return the engine's name for a kind of change; a change of `triggers` is a replacement."""
    return f"{kind}_REPLACE" if _top(path) == "triggers" else kind


class _OwnUser(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """gRPC interceptor that rejects calls by other users of this machine.

    Attributes:
        port: Port of the server.
    """

    port = 0

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = await continuation(details)
        if handler is None:
            return None

        async def checked(requests: AsyncIterator[Any], context: Any) -> Any:
            if reason := local_caller.refusal(context.peer(), self.port):
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, local_caller.message(reason))
            return await handler.unary_unary(await anext(requests), context)

        # As a stream, so that the message of a rejected call is not taken into memory.
        return grpc.stream_unary_rpc_method_handler(
            checked, handler.request_deserializer, handler.response_serializer
        )


async def _serve(engine_address: str) -> None:
    provider = CommandProvider(engine_address)
    own_user = _OwnUser()
    server = grpc.aio.server(interceptors=(own_user,), options=_OPTIONS)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    if port == 0:
        sys.exit("pulumi-resource-command: no free port on 127.0.0.1")
    own_user.port = port
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    engine = os.getppid()
    await server.start()
    print(port, flush=True)
    while not stop.is_set() and os.getppid() == engine:
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _PARENT_POLL)
    provider.cancel()
    with suppress(TimeoutError):
        await asyncio.wait_for(provider.idle(), SHUTDOWN_LIMIT)


def main(arguments: list[str]) -> NoReturn:
    """Run the server until the engine ends this process or has ended itself.

    Then end all commands.
    """
    asyncio.run(_serve(arguments[-1] if arguments else ""))
    sys.stdout.flush()
    os._exit(0)  # Exit without waiting for gRPC's threads.
