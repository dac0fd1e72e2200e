"""Proxy that makes Pulumi's Kubernetes plugin reject the creation of existing objects.

Plugin releases from 4.29 on do this, but no release after 4.25 can be had (real-parts.md). So
this proxy runs in front of the plugin that the toolchain builds, and handles a create like
pulumi-kubernetes v4.29.0 (`provider/pkg/await/await.go`, `Creation`):
- With server-side apply, the object is created by POST with the field manager `pulumi-kubernetes`,
  not by PATCH; the API server's AlreadyExists error gets the text of that file.
- The object is applied as before if the provider's `upsertExistingObjects` is true
  (`provider/pkg/provider/provider.go`, `Configure`), and for patch resources.
- Helm releases are not affected (`provider.go`, `Create`). A preview shows existing objects as
  created and rejects nothing (`provider.go`, `Create`, `failedPreview`).
The older plugin uses POST if `enableServerSideApply` is false, so two plugin processes run here.
The engine attaches to the running proxy because of the variable
`PULUMI_DEBUG_PROVIDERS=kubernetes:<port>`.
"""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import grpc
from pulumi.runtime.proto import provider_pb2

#: Text that the plugin adds to the API server's AlreadyExists error (v4.29.0,
#: provider/pkg/await/await.go).
EXISTS = """

The resource already exists in the cluster. This can happen when:

  - Renaming a Pulumi resource: use an alias to preserve the identity,
    or use deleteBeforeReplace if the resource needs replacement.
  - Managing an existing resource: use a Patch resource (e.g. NamespacePatch)
    to manage specific fields without owning the resource lifecycle.
  - Adopting a resource into Pulumi: use `pulumi import`. Note that
    protected resources (e.g. kube-system) cannot be deleted on destroy.
  - Intentional upsert: set upsertExistingObjects on the provider to allow
    server-side apply to update existing objects on create."""
UPSERT = "upsertExistingObjects"
PREFIX = "/pulumirpc.ResourceProvider/"
VARIABLE = "PULUMI_DEBUG_PROVIDERS"
RELEASE = "kubernetes:helm.sh/v3:Release"
MANAGER = "__fieldManager"
#: Maximum size of a gRPC message, which is the Pulumi engine's own limit, and maximum number of
#: concurrent calls.
OPTIONS = (("grpc.max_receive_message_length", 400 << 20), ("grpc.enable_http_proxy", 0))
CALLS = 256


class Plugin:
    """Process of a Pulumi plugin to which an engine attaches over gRPC."""

    def __init__(self, executable: Path, folder: Path, environment: Mapping[str, str]) -> None:
        """Start the plugin's process and connect to the port that it prints."""
        self._process = subprocess.Popen(
            [str(executable)],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line.strip().isdecimal():
            self.close()
            raise RuntimeError(f"{executable}: found {line!r}, wanted: its port")
        self._channel = grpc.insecure_channel(f"127.0.0.1:{int(line)}", options=OPTIONS)

    def call(self, method: str, request: bytes) -> bytes:
        """Return the plugin's response to a call, both as raw bytes.

        Raises:
            RpcError: The plugin returned an error.
        """
        response: bytes = self._channel.unary_unary(method)(request)
        return response

    def close(self) -> None:
        """End the plugin's process."""
        self._process.kill()
        self._process.communicate()


class NextProvider(grpc.GenericRpcHandler):  # type: ignore[misc]
    """gRPC handler that answers the calls of Pulumi engines.

    Attributes:
        created: Called with the URN of each created object, before the engine gets the response.
        refused: URNs of objects whose creation was rejected because they exist.
    """

    def __init__(self, start: Callable[[], Plugin], *, refuses: bool) -> None:
        """Store how to start the plugin, and whether to reject existing objects."""
        self.created: Callable[[str], None] = lambda _: None
        self.refused: list[str] = []
        self._start, self._refuses = start, refuses
        self._engine = ""
        self._plugins: tuple[Plugin, ...] = ()
        self._upserts = False
        self._lock = Lock()

    def service(self, details: Any) -> Any:
        """Return the function that handles a gRPC method and gets the request's bytes.

        If this class doesn't define the method, the function forwards the request to the plugin.
        """
        method: str = details.method
        own_method = {
            f"{PREFIX}{function.__name__}": function
            for function in (self.Handshake, self.Attach, self.Configure, self.Create)
        }.get(method)

        def answered(request: bytes, context: Any) -> bytes:
            try:
                return own_method(request) if own_method else self._plugins[0].call(method, request)
            except grpc.RpcError as error:
                context.set_trailing_metadata(error.trailing_metadata() or ())
                context.abort(error.code(), self._text(method, error.details()))
                raise AssertionError("abort returned") from error

        return grpc.unary_unary_rpc_method_handler(answered)

    def Handshake(self, request: bytes) -> bytes:
        """Start two new plugin processes for each engine that attaches.

        An engine that starts plugins itself would also start new processes.
        """
        engine = provider_pb2.ProviderHandshakeRequest.FromString(request).engine_address
        with self._lock:
            if engine != self._engine:
                self.close()
                self._engine, self._plugins = engine, (self._start(), self._start())
        return self._both("Handshake", request)

    def Attach(self, request: bytes) -> bytes:
        """Pass the address of the Pulumi engine to both Kubernetes plugins."""
        return self._both("Attach", request)

    def Configure(self, request: bytes) -> bytes:
        """Configure both Kubernetes plugins.

        The second plugin is configured without server-side apply, so it creates objects by POST.
        """
        configured = provider_pb2.ConfigureRequest.FromString(request)
        self._upserts = configured.variables.get(f"kubernetes:config:{UPSERT}") == "true"
        configured.variables["kubernetes:config:enableServerSideApply"] = "false"
        self._plugins[1].call(f"{PREFIX}Configure", configured.SerializeToString())
        return self._plugins[0].call(f"{PREFIX}Configure", request)

    def Create(self, request: bytes) -> bytes:
        """Create an object: by POST if it must not exist yet, otherwise by server-side apply."""
        create_request = provider_pb2.CreateRequest.FromString(request)
        kind = create_request.urn.split("::")[2].rsplit("$", 1)[-1]
        applied = not self._refuses or self._upserts or kind == RELEASE or kind.endswith("Patch")
        method = f"{PREFIX}Create"
        if applied or create_request.preview:
            response = self._plugins[0].call(method, request)
        else:
            response = self._posted(create_request.urn, method, request)
        if not create_request.preview:
            self.created(create_request.urn)
        return response

    def _posted(self, urn: str, method: str, request: bytes) -> bytes:
        """Create an object by POST, and store in the state the field manager of later updates."""
        try:
            created = provider_pb2.CreateResponse.FromString(self._plugins[1].call(method, request))
        except grpc.RpcError as error:
            if _is_conflict(error.details()):
                self.refused.append(urn)
            raise
        created.properties[MANAGER] = f"pulumi-kubernetes-{secrets.token_hex(4)}"
        response: bytes = created.SerializeToString()
        return response

    def _both(self, name: str, request: bytes) -> bytes:
        answers = [plugin.call(f"{PREFIX}{name}", request) for plugin in self._plugins]
        return answers[0]

    @staticmethod
    def _text(method: str, details: str) -> str:
        return (
            details + EXISTS if method == f"{PREFIX}Create" and _is_conflict(details) else details
        )

    def close(self) -> None:
        """End the processes of the old and the new version of Pulumi's Kubernetes plugin."""
        for plugin in self._plugins:
            plugin.close()
        self._plugins = ()


def _is_conflict(details: str) -> bool:
    return details.rstrip().endswith("already exists")


@contextmanager
def serving(
    executable: Path, folder: Path, environment: Mapping[str, str], *, refuses: bool
) -> Iterator[tuple[NextProvider, dict[str, str]]]:
    """Serve the proxy over gRPC; yield it with the environment variables that the engine needs.

    Args:
        executable: The toolchain's plugin.
        folder: Working folder of the plugin, which is the engine's.
        environment: Environment variables of the engine.
        refuses: True to reject existing objects like newer plugins, False to behave like the
            plugin.
    """
    provider = NextProvider(lambda: Plugin(executable, folder, environment), refuses=refuses)
    server = grpc.server(ThreadPoolExecutor(CALLS), handlers=(provider,), options=OPTIONS)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield provider, {VARIABLE: f"kubernetes:{port}"}
    finally:
        server.stop(None).wait()
        provider.close()
