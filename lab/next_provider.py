"""The Kubernetes plugin as releases from 4.29 on are: it refuses to create what exists.

Releases after 4.25 are not served as Go modules. So this stands before the plugin that the
toolchain builds, and does to a create what pulumi-kubernetes v4.29.0 does
(`provider/pkg/await/await.go`, `Creation`):

- with server-side apply the object is made by POST, with the field manager ``pulumi-kubernetes``,
  and not by PATCH; the API server's AlreadyExists gets the text of that file;
- not so where the provider's ``upsertExistingObjects`` is true
  (`provider/pkg/provider/provider.go`, `Configure`), nor for patch resources: these are applied as
  before;
- Helm releases never come there (`provider.go`, `Create`), and a preview shows what exists as
  created and refuses nothing (`provider.go`, `Create`, ``failedPreview``).

That POST is the older plugin's own, where ``enableServerSideApply`` is false: so two of them run
here. The engine is told the port by ``PULUMI_DEBUG_PROVIDERS=kubernetes:<port>``, by which it
attaches to a plugin that runs.
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

#: v4.29.0, provider/pkg/await/await.go: what follows the API server's refusal.
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
#: The engine's own limit of a message, and as many calls at once as it ever makes.
OPTIONS = (("grpc.max_receive_message_length", 400 << 20),)
CALLS = 256


class Plugin:
    """A plugin's own process, to which an engine attaches."""

    def __init__(self, executable: Path, folder: Path, environment: Mapping[str, str]) -> None:
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
        """Return the plugin's answer, raw as the request.

        Raises:
            RpcError: the plugin's refusal.
        """
        answer: bytes = self._channel.unary_unary(method)(request)
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


class NextProvider(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers the engine's calls.

    Attributes:
        created: called with the URN of each object when it is made, before the engine knows.
        refused: URNs of the objects that exist and were refused.
    """

    def __init__(self, start: Callable[[], Plugin], *, refuses: bool) -> None:
        self.created: Callable[[str], None] = lambda _: None
        self.refused: list[str] = []
        self._start, self._refuses = start, refuses
        self._engine = ""
        self._plugins: tuple[Plugin, ...] = ()
        self._upserts = False
        self._lock = Lock()

    def service(self, details: Any) -> Any:
        """Return who answers a method: one of this class, else the plugin itself."""
        method: str = details.method
        own = {
            f"{PREFIX}{function.__name__}": function
            for function in (self.Handshake, self.Attach, self.Configure, self.Create)
        }.get(method)

        def answered(request: bytes, context: Any) -> bytes:
            try:
                return own(request) if own else self._plugins[0].call(method, request)
            except grpc.RpcError as error:
                context.set_trailing_metadata(error.trailing_metadata() or ())
                context.abort(error.code(), self._text(method, error.details()))
                raise AssertionError("abort returned") from error

        return grpc.unary_unary_rpc_method_handler(answered)

    def Handshake(self, request: bytes) -> bytes:
        """Each engine gets plugins of its own, as if it had started them."""
        engine = provider_pb2.ProviderHandshakeRequest.FromString(request).engine_address
        with self._lock:
            if engine != self._engine:
                self.close()
                self._engine, self._plugins = engine, (self._start(), self._start())
        return self._both("Handshake", request)

    def Attach(self, request: bytes) -> bytes:
        """The engine that both plugins write their messages to."""
        return self._both("Attach", request)

    def Configure(self, request: bytes) -> bytes:
        """The second plugin applies on the client's side, which is how it creates by POST."""
        asked = provider_pb2.ConfigureRequest.FromString(request)
        self._upserts = asked.variables.get(f"kubernetes:config:{UPSERT}") == "true"
        asked.variables["kubernetes:config:enableServerSideApply"] = "false"
        self._plugins[1].call(f"{PREFIX}Configure", asked.SerializeToString())
        return self._plugins[0].call(f"{PREFIX}Configure", request)

    def Create(self, request: bytes) -> bytes:
        """Apply what may exist, and make by POST what may not."""
        asked = provider_pb2.CreateRequest.FromString(request)
        kind = asked.urn.split("::")[2].rsplit("$", 1)[-1]
        applied = not self._refuses or self._upserts or kind == RELEASE or kind.endswith("Patch")
        method = f"{PREFIX}Create"
        if applied or asked.preview:
            answer = self._plugins[0].call(method, request)
        else:
            answer = self._posted(asked.urn, method, request)
        if not asked.preview:
            self.created(asked.urn)
        return answer

    def _posted(self, urn: str, method: str, request: bytes) -> bytes:
        """Create an object by POST; the state gets the field manager of later updates."""
        try:
            made = provider_pb2.CreateResponse.FromString(self._plugins[1].call(method, request))
        except grpc.RpcError as error:
            if _exists(error.details()):
                self.refused.append(urn)
            raise
        made.properties[MANAGER] = f"pulumi-kubernetes-{secrets.token_hex(4)}"
        answer: bytes = made.SerializeToString()
        return answer

    def _both(self, name: str, request: bytes) -> bytes:
        answers = [plugin.call(f"{PREFIX}{name}", request) for plugin in self._plugins]
        return answers[0]

    @staticmethod
    def _text(method: str, details: str) -> str:
        return details + EXISTS if method == f"{PREFIX}Create" and _exists(details) else details

    def close(self) -> None:
        """End the plugins."""
        for plugin in self._plugins:
            plugin.close()
        self._plugins = ()


def _exists(details: str) -> bool:
    return details.rstrip().endswith("already exists")


@contextmanager
def serving(
    executable: Path, folder: Path, environment: Mapping[str, str], *, refuses: bool
) -> Iterator[tuple[NextProvider, dict[str, str]]]:
    """Serve a provider; yield it with what the engine needs in its environment.

    Args:
        executable: the plugin that the toolchain has.
        folder: where the engine runs, as a plugin's working directory is.
        environment: the engine's.
        refuses: as the next plugin does; else as the plugin itself.
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
