"""Client of the Kubernetes API that returns raw JSON objects; kr8s provides the credentials."""

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

from gpu_cluster.kubernetes.kubeconfig_contexts import given_kubeconfig, missing_context
from gpu_cluster.kubernetes.progress import made_progress
from gpu_rules.faults import Fault, FaultError
from gpu_rules.printable import printable, printable_lines

Json = dict[str, Any]

UNAUTHORIZED = 401
"""HTTP status for credentials that the API server does not accept."""

RETRIES, PAUSE = 10, 1.0
"""Retries of a read whose connection ended without a response, and seconds before each retry.

kubectl uses the same values (client-go v0.35.3 rest/request.go, request; rest/with_retry.go).
"""
ENDED = (httpx.RemoteProtocolError, httpx.ReadError)
"""Errors of an API server that restarts, or that closed the connection while it was in use."""

LARGEST = 64 * 1024 * 1024
"""Maximum size of a response in bytes, after decompression. An object has at most 3 MiB."""
IDLE, LONGEST = 60.0, 120.0
"""Seconds in which the next bytes of a response must come, and in which all of them must."""
WRITING = 2.0
"""Seconds in which a cancelled login writes its files; a credential plugin may take longer."""
LONGEST_TOKEN = 8192
"""Maximum length of the token of a list's next page, which becomes a part of a URL."""
LONGEST_VERSION = 100
"""Maximum length of an API server's version in characters; a longer one is cut."""
PAGE, SMALL_PAGE = 500, 16
"""Objects of a page of a list; and after a page of more than `LARGEST` bytes."""
MOST_ITEMS, MOST_BYTES, EMPTY_PAGES = 200_000, 1024**3, 100
"""Limits of a whole list, and of its pages without an object that follow each other.

A cluster has at most 150,000 pods (kubernetes.io, "Considerations for large clusters"). A list may
take any time as long as its pages bring objects."""

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"


# Pattern of one part of a request's path. Object names become such parts, so a part must not be `.`
# or `..` or contain a slash, which would lead to another path. A lone `*` is no object's name; the
# custom metrics API takes it for all objects.
_SEGMENT = re.compile(r"\*|(?!\.{1,2}$)[A-Za-z0-9.:_-]*")
AGENT = "gpu-cluster/program"
"""Value of the header `User-Agent`."""


class ClusterError(FaultError):
    """An error in a cluster or in the connection to the cluster."""


class Excessive(ClusterError):
    """A response or a list of the API server is larger than this program reads."""


class Refused(ClusterError):
    """The API server rejected a request.

    Attributes:
        code: HTTP status.
        reason: Reason in the API server's response, such as `NotFound`.
        message: Message in the API server's response.
    """

    def __init__(self, request: str, code: int, reason: str, message: str) -> None:
        """Create the error.

        Args:
            request: Method and URL of the request.
            code: HTTP status.
            reason: Reason in the API server's response.
            message: Message in the API server's response.
        """
        super().__init__(
            Fault(
                request,
                message,
                "a request that the API server accepts",
                "correct what the message names",
            )
        )
        self.code = code
        self.reason = reason
        self.message = message


def _refused_request(request: str, code: int, text: str) -> Refused:
    """Return the error for a response of the API server, or of a proxy in front of it."""
    try:
        status = json.loads(text)
    except (ValueError, RecursionError):
        status = None
    if not isinstance(status, dict):
        status = {"message": text}
    message = str(status.get("message") or f"HTTP status {code}")
    return Refused(request, code, str(status.get("reason", "")), printable_lines(message))


def _checked_path(method: str, url: str, path: str) -> str:
    """Return a request's path if each of its parts is a valid name; a fault names `url`."""
    if all(map(_SEGMENT.fullmatch, path.split("/"))):
        return path
    raise ClusterError(
        Fault(
            f"{method} {printable(url, 200)}",
            "an object with an invalid name",
            "names of letters, digits, `.`, `:`, `_` and `-`",
            "find out which client created the object (metadata.managedFields)",
        )
    )


def _excessive_response(request: str, found: str) -> Excessive:
    cure = "find out which server responds, and who created so much (`kubectl get apiservices`)"
    return Excessive(Fault(request, found, "a shorter response", cure))


def _parse_response(request: str, text: str) -> Any:
    """Return the JSON value of a response."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        found = f"a response that isn't JSON ({printable(text, 80)})"
        cure = "find out which server responds at the address in the kubeconfig"
        raise ClusterError(Fault(request, found, "JSON", cure)) from None


def _read_page(request: str, value: Any) -> tuple[list[Json], str]:
    """Return the objects of a page of a list, and the token of the next page."""
    if isinstance(value, dict):
        items, metadata = value.get("items") or [], value.get("metadata") or {}
        if isinstance(items, list) and isinstance(metadata, dict):
            token = metadata.get("continue") or ""
            is_token = isinstance(token, str) and len(token) <= LONGEST_TOKEN
            if is_token and all(isinstance(item, dict) for item in items):
                return items, token
    cure = "find out which server responds at the address in the kubeconfig"
    raise ClusterError(Fault(request, "a response that isn't a list", "a list of objects", cure))


def _no_response(request: str, error: httpx.HTTPError) -> ClusterError:
    """Return the error for a request without a response."""
    found = f"no response from the API server ({error or type(error).__name__})"
    return ClusterError(
        Fault(request, found, "a response", "check that the control plane runs, then run again")
    )


class Client:
    """Client that sends raw requests to one API server, with credentials from kr8s.

    Each response and each list has limits in bytes and in time. No redirect is followed, so that no
    other server gets the credentials.
    """

    def __init__(self, session: httpx.AsyncClient, credentials: Any) -> None:
        """Create a client from an authenticated session.

        Args:
            session: HTTP session of the API server.
            credentials: The attribute `auth` of a kr8s API object.
        """
        self._session = session
        self._credentials = credentials
        self._log_in = asyncio.Lock()

    async def _log_in_again(self) -> None:
        """Read expired credentials again; a lock prevents parallel logins."""
        async with self._log_in:
            ended, self._session = self._session, await _open_session(self._credentials)
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
        """Send one request; return the JSON response parsed, or as text if `parse` is false.

        Raises:
            Refused: The API server rejected the request; the error has its message.
            ClusterError: A part of the path is not a valid name, or no response came. A read is
                repeated up to `RETRIES` times; a write is not, because it may have been executed.
        """
        base = base or ("/apis" if "/" in version else "/api")
        path = _checked_path(
            method, url, "/".join([base, version, url] if version else [base, url])
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
            raise _no_response(f"{method} {url}", error) from error
        if not response.is_success:
            raise _refused_request(f"{method} {url}", response.status_code, response.text)
        return _parse_response(f"{method} {url}", response.text) if parse else response.text

    async def read(self, path: str, most: int) -> bytes:
        """Return the body of a response that the API server may only forward.

        Such a response comes from another server. The request is sent once.

        Args:
            path: Path of the request.
            most: Maximum number of bytes of the body.

        Raises:
            Refused: The request was rejected or redirected; the error has the server's message.
            ClusterError: A part of the path is not a valid name, no response came, or the response
                is longer.
        """
        path = _checked_path("GET", path, path)
        try:
            response = await self._send("GET", path, most=most)
        except httpx.TransportError as error:
            raise _no_response(f"GET {path}", error) from error
        if not response.is_success:
            raise _refused_request(f"GET {path}", response.status_code, response.text)
        return response.content

    async def ask(self, method: str, path: str, **sent: Any) -> httpx.Response:
        """Return the response to a request; expired credentials are read again.

        Raises:
            httpx.TransportError: No response came.
            ClusterError: The response is too large.
        """
        response = await self._repeated(method, path, **sent)
        if response.status_code != UNAUTHORIZED:
            return response
        await self._log_in_again()
        return await self._repeated(method, path, **sent)

    async def _repeated(self, method: str, path: str, **sent: Any) -> httpx.Response:
        retries = RETRIES if method == "GET" else 0
        while True:
            try:
                return await self._send(method, path, **sent)
            except ENDED:
                if not retries:
                    raise
            retries -= 1
            await asyncio.sleep(PAUSE)

    async def _send(
        self, method: str, path: str, *, most: int | None = None, **sent: Any
    ) -> httpx.Response:
        """Send a request once, and return the whole response.

        Raises:
            httpx.TransportError: No whole response came in `LONGEST` seconds.
            ClusterError: The response has more than `most` bytes.
        """
        name = self._credentials.tls_server_name
        extensions = {"sni_hostname": name} if name else {}
        request = self._session.build_request(method, path, extensions=extensions, **sent)
        try:
            async with asyncio.timeout(LONGEST):
                response = await self._session.send(request, stream=True)
                try:
                    body = await _read_body(response, most or LARGEST)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise httpx.ReadTimeout(f"no end in {LONGEST:.0f} s") from None
        except httpx.DecodingError as error:
            raise httpx.TransportError(str(error)) from error
        kind = {"content-type": response.headers.get("content-type", "application/json")}
        return httpx.Response(
            response.status_code, headers=kind, content=body, request=response.request
        )

    async def aclose(self) -> None:
        """Close the session."""
        await self._session.aclose()

    async def is_ready(self) -> bool:
        """Return True if the API server is ready for requests.

        An API server that has just started rejects all requests until it has read its RBAC roles;
        its readiness endpoint waits for this (kubernetes v1.34 staging/src/k8s.io/apiserver,
        pkg/server/config.go, NewInformerSyncHealthz).
        """
        try:
            response = await self._send("GET", "/readyz")
        except httpx.TransportError:
            return False
        if response.status_code == UNAUTHORIZED:
            await self._log_in_again()
        return response.is_success

    async def server_version(self) -> str:
        """Return the version of the API server, such as "v1.35.2", safe to print.

        Raises:
            ClusterError: The API server rejected the request, or its answer has no version.
        """
        answer = await self.request("GET", "", base="/version", version="")
        version = answer.get("gitVersion") if isinstance(answer, dict) else None
        if not isinstance(version, str):
            cure = "find out which server responds at the address in the kubeconfig"
            found = "a response that isn't a version"
            raise ClusterError(Fault("GET /version", found, "`gitVersion`", cure))
        return printable(version, LONGEST_VERSION)

    async def find(self, url: str, *, base: str = "") -> Json | None:
        """Return one object, or None if no object of this name or kind exists."""
        try:
            item: Json = await self.request("GET", url, base=base)
        except Refused as error:
            if error.code == 404:
                return None
            raise
        return item

    async def pages(
        self, url: str, *, base: str = "", version: str = "v1", **params: str
    ) -> AsyncIterator[list[Json]]:
        """Yield the items of a list, page by page; raise errors as `list`."""
        request, empty = f"GET {url}", 0
        params = {"limit": str(PAGE), **params}
        number = size = 0
        while True:
            try:
                text = await self.request(
                    "GET", url, base=base, version=version, params=params, parse=False
                )
            except Excessive:
                if params["limit"] != str(PAGE):
                    raise
                params["limit"] = str(SMALL_PAGE)
                continue
            items, token = _read_page(request, _parse_response(request, text))
            number, size = number + len(items), size + len(text)
            if number > MOST_ITEMS or size > MOST_BYTES:
                found = f"a list of more than {MOST_ITEMS} objects, or of {MOST_BYTES} bytes"
                raise _excessive_response(request, found)
            empty = 0 if items else empty + 1
            if empty > EMPTY_PAGES:
                raise _excessive_response(request, f"a list with {empty} pages without an object")
            if items:
                made_progress()
            yield items
            if not token:
                return
            params["continue"] = token

    async def list(
        self, url: str, *, base: str = "", version: str = "v1", **params: str
    ) -> list[Json]:
        """Return all items of a list, which is read in pages.

        Raises:
            Refused: The API server rejected a request.
            ClusterError: The list is too long, or its pages bring no objects.
        """
        pages = self.pages(url, base=base, version=version, **params)
        return [item async for page in pages for item in page]


async def _read_body(response: httpx.Response, most: int) -> bytes:
    """Return the body of a response, after decompression.

    Raises:
        Excessive: The body has more than `most` bytes.
        httpx.DecodingError: The body can't be decompressed, or is compressed several times.
    """
    request, body = f"{response.request.method} {response.request.url.path}", bytearray()
    if response.headers.get("content-encoding", "identity").lower() not in ("gzip", "identity"):
        # A few bytes that are compressed twice can be gigabytes in one step.
        raise httpx.DecodingError(
            "a response in an encoding that was not requested; cure: see which proxy is on the way"
        )
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > most:
            raise _excessive_response(request, f"more than {most} bytes")
    return bytes(body)


async def _open_session(credentials: Any) -> httpx.AsyncClient:
    """Return an HTTP session after reading the credentials again.

    TLS needs keys in files. kr8s writes the keys of the kubeconfig to files that only their owner
    can read, and does not delete them (kr8s 0.20.15 _auth.py, _load_kubeconfig). This function
    deletes the files as soon as the keys are loaded. kr8s says where a file is after it has written
    it, so a login that is cancelled gets `WRITING` seconds to end.
    """
    login = asyncio.ensure_future(credentials.reauthenticate())
    try:
        await asyncio.shield(login)
        headers = {"User-Agent": AGENT, "Accept-Encoding": "gzip"}
        if credentials.token:
            headers["Authorization"] = f"Bearer {credentials.token}"
        return httpx.AsyncClient(
            base_url=credentials.server,
            headers=headers,
            verify=await credentials.ssl_context(),
            timeout=IDLE,
            proxy=credentials.proxy,
        )
    finally:
        if not login.done():
            await asyncio.wait({login}, timeout=WRITING)
            login.cancel()
            await asyncio.wait({login}, timeout=WRITING)  # Ends the credential plugin.
        for file in _credential_files(credentials):
            file.unlink(missing_ok=True)


def _credential_files(credentials: Any) -> Iterator[Path]:
    """Yield the files in which kr8s stored keys from the kubeconfig or its credential plugin."""
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
    """Yield a client for a context of the kubeconfig in use.

    The credentials are in files during the login, and only their owner can read the files.

    Raises:
        ClusterError: The kubeconfig or the context is missing, the API server can't be reached, or
            it rejects the credentials.
    """
    client = await _log_in(context)
    try:
        yield client
    finally:
        await client.aclose()


async def _log_in(context: str | None) -> Client:
    def refuse(found: str, wanted: str, cure: str) -> Fault:
        return Fault(f"context {context}", found, wanted, cure)

    again = f"log in again, and see `kubectl --context {context} auth whoami`"
    # `kr8s.asyncio.api()` is not used, because it keeps its API object for every later caller.
    # Without a namespace, kr8s requires a current context.
    given_config = given_kubeconfig()
    if given_config is not None and (missing := missing_context(context or "")):
        # kr8s would use the machine's own kubeconfig in place of an empty one.
        raise ClusterError(missing)
    api = kr8s.asyncio.Api(
        context=context, namespace="default", kubeconfig=given_config, bypass_factory=True
    )
    credentials = api.auth
    try:
        client = Client(await _open_session(credentials), credentials)
        try:
            response = await client.ask("GET", "/version/")
            response.raise_for_status()
        except BaseException:
            await client.aclose()
            raise
    except httpx.HTTPStatusError as error:
        refused = _refused_request("GET /version", error.response.status_code, error.response.text)
        found = f"credentials that the API server rejects ({refused.message})"
        raise ClusterError(refuse(found, "credentials of a user of the cluster", again)) from error
    except (httpx.HTTPError, OSError) as error:
        found = f"no response from the API server ({error or type(error).__name__})"
        cure = f"check KUBECONFIG and `kubectl --context {context} get nodes`"
        raise ClusterError(refuse(found, "a running cluster", cure)) from error
    # kr8s raises RuntimeError with the error output of a credential plugin.
    except RuntimeError as error:
        found = f"a credential plugin that failed ({error})"
        raise ClusterError(refuse(found, "credentials", again)) from error
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        if context and (missing := missing_context(context)):
            raise ClusterError(missing) from error
        found = f"no usable context of that name in the kubeconfig ({error})"
        cure = "`kubectl config get-contexts`, then `kubernetes.context` in the stack file"
        raise ClusterError(refuse(found, "a context of the kubeconfig", cure)) from error
    return client
