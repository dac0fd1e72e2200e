"""The Kubernetes API as facts and operations use it: raw objects by kr8s."""

from __future__ import annotations

import asyncio
import json
import os
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio
import httpx
import kr8s._auth
import kr8s.asyncio

from components.kubeconfig_contexts import missing_context
from config.printable import printable, printable_lines
from config.problem import Fault, FaultError

Json = dict[str, Any]

UNAUTHORIZED = 401
ERROR = 400
"""HTTP statuses: credentials that are not accepted; the first that is an error."""

RETRIES, PAUSE = 10, 1.0
"""How often a read is repeated whose connection ended without an answer, and the seconds between
two, as kubectl does (client-go v0.35.3 rest/request.go, request; rest/with_retry.go)."""
ENDED = (httpx.RemoteProtocolError, httpx.ReadError)
"""An API server that restarts, or that closed a connection in the moment in which it was used."""

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"


#: A part of a request's path. Names that were read become such parts: none may lead elsewhere.
_SEGMENT = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9.:_-]*")


_folder: ContextVar[str | None] = ContextVar("_folder", default=None)
"""Where the connection being made keeps its credentials; None: where Python has such files."""


@asynccontextmanager
async def _temporary_file(**_: object) -> AsyncIterator[anyio.Path]:
    descriptor, name = tempfile.mkstemp(dir=_folder.get())
    os.close(descriptor)
    yield anyio.Path(name)


# TLS wants keys in files. kr8s writes those of the kubeconfig again for each connection and each
# refused request, and never removes them (kr8s 0.20.15 _auth.py _load_kubeconfig).
setattr(kr8s._auth, "NamedTemporaryFile", _temporary_file)  # noqa: B010 -- typed otherwise


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
    """Raw requests to one API server by kr8s, which reads kubeconfigs and credential plugins."""

    def __init__(self, api: kr8s.asyncio.Api) -> None:
        self._api = api
        self._log_in = asyncio.Lock()

    async def _log_in_again(self) -> None:
        """Reads the credentials again: a token may have ended.

        Here, by one request at a time, and only on 401: kr8s does so on 403, too, by each request
        for itself, and those beside it are then without an address (kr8s 0.20.15 _api.py call_api,
        _auth.py reauthenticate).
        """
        async with self._log_in:
            await self._api.auth.reauthenticate()
            await self._api._create_session()

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
        """One request: the parsed answer, or its text where ``parse`` is false.

        Raises:
            Refused: with the API server's own message.
            ClusterError: a part of the path that no name is; no answer, which a read is given
                `RETRIES` chances for and a write none, as it may have been carried out.
        """
        if not all(map(_SEGMENT.fullmatch, f"{base}/{version}/{url}".split("/"))):
            raise ClusterError(
                Fault(
                    f"{method} {printable(url, 200)}",
                    "a name that can't be one",
                    "letters, digits, `.`, `:`, `_` and `-`",
                    "look who made the object",
                )
            )
        for last in (False, True):
            code, text = await self._answer(
                method,
                url,
                base=base,
                version=version,
                params=params,
                headers={"Content-Type": content_type},
                content=None if body is None else json.dumps(body).encode(),
            )
            if code != UNAUTHORIZED or last:
                break
            await self._log_in_again()
        if code >= ERROR:
            raise _refused(f"{method} {url}", code, text)
        return json.loads(text) if parse else text

    async def _answer(self, method: str, url: str, **sent: Any) -> tuple[int, str]:
        """Status and text of the answer."""
        left = RETRIES if method == "GET" else 0
        while True:
            try:
                async with self._api.call_api(
                    method, url=url, raise_for_status=False, **sent
                ) as response:
                    return response.status_code, response.text
            except (httpx.TransportError, kr8s.APITimeoutError) as error:
                if not left or not isinstance(error, ENDED):
                    found = f"no answer from the API server ({error or type(error).__name__})"
                    cure = "see how the control plane is, then run again"
                    raise ClusterError(Fault(f"{method} {url}", found, "one", cure)) from error
            left -= 1
            await asyncio.sleep(PAUSE)

    async def is_ready(self) -> bool:
        """Whether the API server takes requests as it will from now on.

        One that has just started answers before it has read its roles, and refuses everybody until
        then; its readiness waits for that (kubernetes v1.34 staging/src/k8s.io/apiserver,
        pkg/server/config.go, NewInformerSyncHealthz).
        """
        # Past call_api, whose paths below a base have one more part.
        name, session = self._api.auth.tls_server_name, self._api._session
        if session is None:
            return False
        extensions = {"sni_hostname": name} if name else {}
        try:
            response = await session.request("GET", "/readyz", extensions=extensions)
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


@asynccontextmanager
async def connect(context: str | None) -> AsyncIterator[Client]:
    """A client for a context of the kubeconfig that ``KUBECONFIG`` names.

    Its credentials are on disk while it logs in, readable by their owner only.

    Raises:
        ClusterError: no kubeconfig, no such context, an API server that can't be reached, or
            credentials that it refuses.
    """
    with tempfile.TemporaryDirectory(prefix="gpu-cluster-") as folder:
        token = _folder.set(folder)
        # Not by kr8s.asyncio.api(): it keeps what it made, and a session that failed stays open.
        api = kr8s.asyncio.Api(context=context, bypass_factory=True)
        try:
            await _log_in(api, context)
            for read in Path(folder).iterdir():
                read.unlink()  # at once: what is ended from outside cleans nothing up
            yield Client(api)
        finally:
            if api._session is not None:
                await api._session.aclose()
            _folder.reset(token)


async def _log_in(api: kr8s.asyncio.Api, context: str | None) -> None:
    def fault(found: str, wanted: str, cure: str) -> Fault:
        return Fault(f"context {context}", found, wanted, cure)

    again = f"log in again, and see `kubectl --context {context} auth whoami`"
    try:
        await api.auth
        await api.version()  # `await api` would warn of each version that came after kr8s
    except (httpx.HTTPError, kr8s.APITimeoutError, kr8s.ConnectionClosedError, OSError) as error:
        found = f"no answer from the API server ({error or type(error).__name__})"
        cure = f"check KUBECONFIG and `kubectl --context {context} get nodes`"
        raise ClusterError(fault(found, "a running cluster", cure)) from error
    except kr8s.ServerError as error:
        found = f"credentials that the API server refuses ({error})"
        raise ClusterError(fault(found, "a user of the cluster", again)) from error
    except RuntimeError as error:  # kr8s: what the user's credential plugin said at its end
        found = f"a credential plugin that failed ({error})"
        raise ClusterError(fault(found, "credentials", again)) from error
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        if context and (missing := missing_context(context)):
            raise ClusterError(missing) from error
        found = f"no usable context of that name in the kubeconfig ({error})"
        cure = "`kubectl config get-contexts`, then `kubernetes.context` in the stack file"
        raise ClusterError(fault(found, "one of its contexts", cure)) from error
