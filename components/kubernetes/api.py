"""The Kubernetes API as facts and operations use it: raw objects, by kr8s' credentials."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import kr8s.asyncio

from components.kubernetes.kubeconfig_contexts import given_kubeconfig, missing_context
from policies.faults import Fault, FaultError
from policies.printable import printable, printable_lines

Json = dict[str, Any]

UNAUTHORIZED = 401
"""The HTTP status of credentials that are not accepted."""

RETRIES, PAUSE = 10, 1.0
"""How often a read is repeated whose connection ended without an answer, and the seconds between
two, as kubectl does (client-go v0.35.3 rest/request.go, request; rest/with_retry.go)."""
ENDED = (httpx.RemoteProtocolError, httpx.ReadError)
"""An API server that restarts, or that closed a connection in the moment in which it was used."""

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"


#: A part of a request's path. Names that were read become such parts: none may lead elsewhere.
_SEGMENT = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9.:_-]*")
AGENT = "gpu-cluster/program"
"""How this client calls itself."""


class ClusterError(FaultError):
    """What is wrong in a cluster, or with the way to it."""


class Refused(ClusterError):
    """The API server refused a request.

    Attributes:
        code: its HTTP status.
        reason: the API server's word for it.
        message: what the API server says.
    """

    def __init__(self, request: str, code: int, reason: str, message: str) -> None:
        super().__init__(
            Fault(request, message, "a request that the API server takes", "see what it names")
        )
        self.code = code
        self.reason = reason
        self.message = message


def _refused(request: str, code: int, text: str) -> Refused:
    """What the API server, or a proxy before it, answered instead of the object."""
    try:
        status = json.loads(text)
    except ValueError:
        status = None
    if not isinstance(status, dict):
        status = {"message": text}
    message = str(status.get("message") or f"HTTP status {code}")
    return Refused(request, code, str(status.get("reason", "")), printable_lines(message))


class Client:
    """Raw requests to one API server, by credentials of which kr8s knows how they are had."""

    def __init__(self, session: httpx.AsyncClient, credentials: Any) -> None:
        """Make a client of a session that has logged in.

        Args:
            session: to the API server.
            credentials: kr8s' ``auth``.
        """
        self._session = session
        self._credentials = credentials
        self._log_in = asyncio.Lock()

    async def _log_in_again(self) -> None:
        """Read the credentials again: a token may have ended. One request at a time does so."""
        async with self._log_in:
            ended, self._session = self._session, await _session(self._credentials)
            await ended.aclose()

    async def request(
        self,
        method: str,
        url: str,
        *,
        base: str = "",
        version: str = "v1",
        body: Json | list[Json] | None = None,
        content_type: str = "application/json",
        params: dict[str, str] | None = None,
        parse: bool = True,
    ) -> Any:
        """Make one request; return the parsed answer, or its text where ``parse`` is false.

        Raises:
            Refused: with the API server's own message.
            ClusterError: a part of the path that no name is; no answer, which a read is given
                `RETRIES` chances for and a write none, as it may have been carried out.
        """
        base = base or ("/apis" if "/" in version else "/api")
        path = "/".join([base, version, url] if version else [base, url])
        if not all(map(_SEGMENT.fullmatch, path.split("/"))):
            raise ClusterError(
                Fault(
                    f"{method} {printable(url, 200)}",
                    "a name that can't be one",
                    "letters, digits, `.`, `:`, `_` and `-`",
                    "look who made the object",
                )
            )
        try:
            response = await self.ask(
                method,
                path,
                params=params,
                headers={"Content-Type": content_type},
                content=None if body is None else json.dumps(body).encode(),
            )
        except httpx.TransportError as error:
            found = f"no answer from the API server ({error or type(error).__name__})"
            cure = "see how the control plane is, then run again"
            raise ClusterError(Fault(f"{method} {url}", found, "one", cure)) from error
        if response.is_error:
            raise _refused(f"{method} {url}", response.status_code, response.text)
        return json.loads(response.text) if parse else response.text

    async def ask(self, method: str, path: str, **sent: Any) -> httpx.Response:
        """Return the answer to a request; credentials that have ended are read again.

        Raises:
            httpx.TransportError: none came.
        """
        response = await self._repeated(method, path, **sent)
        if response.status_code != UNAUTHORIZED:
            return response
        await self._log_in_again()
        return await self._repeated(method, path, **sent)

    async def _repeated(self, method: str, path: str, **sent: Any) -> httpx.Response:
        left = RETRIES if method == "GET" else 0
        while True:
            try:
                return await self._send(method, path, **sent)
            except ENDED:
                if not left:
                    raise
            left -= 1
            await asyncio.sleep(PAUSE)

    async def _send(self, method: str, path: str, **sent: Any) -> httpx.Response:
        name = self._credentials.tls_server_name
        extensions = {"sni_hostname": name} if name else {}
        return await self._session.request(method, path, extensions=extensions, **sent)

    async def aclose(self) -> None:
        """Close the session."""
        await self._session.aclose()

    async def is_ready(self) -> bool:
        """Whether the API server takes requests as it will from now on.

        One that has just started answers before it has read its roles, and refuses everybody until
        then; its readiness waits for that (kubernetes v1.34 staging/src/k8s.io/apiserver,
        pkg/server/config.go, NewInformerSyncHealthz).
        """
        try:
            response = await self._send("GET", "/readyz")
        except httpx.TransportError:
            return False
        if response.status_code == UNAUTHORIZED:
            await self._log_in_again()
        return response.is_success

    async def find(self, url: str, *, base: str = "") -> Json | None:
        """One object; None where there is none of that name, or of that kind."""
        try:
            item: Json = await self.request("GET", url, base=base)
        except Refused as error:
            if error.code == 404:
                return None
            raise
        return item

    async def list(
        self, url: str, *, base: str = "", version: str = "v1", **params: str
    ) -> list[Json]:
        """All items of a list, in pages of 500."""
        items: list[Json] = []
        params = {"limit": "500", **params}
        while True:
            page = await self.request("GET", url, base=base, version=version, params=params)
            items += page["items"]
            token = page["metadata"].get("continue")
            if not token:
                return items
            params["continue"] = token


async def _session(credentials: Any) -> httpx.AsyncClient:
    """Return a session of credentials that are read just now.

    TLS wants keys in files. kr8s writes those of the kubeconfig, readable by their owner only, and
    leaves them to its caller (kr8s 0.20.15 _auth.py, _load_kubeconfig); they are removed at once.
    """
    try:
        await credentials.reauthenticate()
        headers = {"User-Agent": AGENT}
        if credentials.token:
            headers["Authorization"] = f"Bearer {credentials.token}"
        return httpx.AsyncClient(
            base_url=credentials.server,
            headers=headers,
            verify=await credentials.ssl_context(),
            timeout=None,  # noqa: S113 -- whoever waits has a limit of its own
            follow_redirects=True,
            proxy=credentials.proxy,
        )
    finally:
        for file in _written(credentials):
            file.unlink(missing_ok=True)


def _written(credentials: Any) -> Iterator[Path]:
    """Yield the files that kr8s wrote: of what the kubeconfig, or its plugin, gave as data."""
    if not credentials.active_context:
        return
    config = credentials.kubeconfig
    context = config.get_context(credentials.active_context)
    user, cluster = config.get_user(context["user"]), config.get_cluster(context["cluster"])
    for entry, key, file in (
        (user, "client-key-data", credentials.client_key_file),
        (user, "client-certificate-data", credentials.client_cert_file),
        (cluster, "certificate-authority-data", credentials.server_ca_file),
    ):
        if key in entry and file is not None:
            yield Path(file)


@asynccontextmanager
async def connect(context: str | None) -> AsyncIterator[Client]:
    """A client for a context of the kubeconfig in use: given, or the one ``KUBECONFIG`` names.

    Its credentials are on disk while it logs in, readable by their owner only.

    Raises:
        ClusterError: no kubeconfig, no such context, an API server that can't be reached, or
            credentials that it refuses.
    """
    client = await _log_in(context)
    try:
        yield client
    finally:
        await client.aclose()


async def _log_in(context: str | None) -> Client:
    def fault(found: str, wanted: str, cure: str) -> Fault:
        return Fault(f"context {context}", found, wanted, cure)

    again = f"log in again, and see `kubectl --context {context} auth whoami`"
    # Not by kr8s.asyncio.api(): it keeps what it made for every later caller. Without a namespace
    # it wants a current context.
    own = given_kubeconfig()
    if own is not None and (missing := missing_context(context or "")):
        raise ClusterError(missing)  # kr8s takes the machine's in place of an empty one
    made = kr8s.asyncio.Api(
        context=context, namespace="default", kubeconfig=own, bypass_factory=True
    )
    credentials = made.auth
    try:
        client = Client(await _session(credentials), credentials)
        try:
            response = await client.ask("GET", "/version/")
            response.raise_for_status()
        except BaseException:
            await client.aclose()
            raise
    except httpx.HTTPStatusError as error:
        refused = _refused("GET /version", error.response.status_code, error.response.text)
        found = f"credentials that the API server refuses ({refused.message})"
        raise ClusterError(fault(found, "a user of the cluster", again)) from error
    except (httpx.HTTPError, OSError) as error:
        found = f"no answer from the API server ({error or type(error).__name__})"
        cure = f"check KUBECONFIG and `kubectl --context {context} get nodes`"
        raise ClusterError(fault(found, "a running cluster", cure)) from error
    except RuntimeError as error:  # kr8s: what the user's credential plugin said at its end
        found = f"a credential plugin that failed ({error})"
        raise ClusterError(fault(found, "credentials", again)) from error
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        if context and (missing := missing_context(context)):
            raise ClusterError(missing) from error
        found = f"no usable context of that name in the kubeconfig ({error})"
        cure = "`kubectl config get-contexts`, then `kubernetes.context` in the stack file"
        raise ClusterError(fault(found, "one of its contexts", cure)) from error
    return client
