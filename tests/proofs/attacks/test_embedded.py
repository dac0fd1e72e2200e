"""Attack: another local user connects to the ports of the embedded cluster."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from collections.abc import Iterator

import pytest
import yaml

import toolchain
from lab.simulator.control_plane import TOOLS, ControlPlane
from tests.toolchain.plugins.rig import LIMIT

# Request for all keys in etcd, in the JSON form of etcd's HTTP gateway.
RANGE = json.dumps({"key": "AA==", "range_end": "AA=="})


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start an embedded control plane in a separate cache folder."""
    folders = {str(tool.path.parent) for tool in toolchain.ensure(*TOOLS).values()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", os.pathsep.join([*sorted(folders), os.environ["PATH"]]))
        patch.setenv("GPU_CLUSTER_CACHE", str(tmp_path_factory.mktemp("cache")))
        made = ControlPlane("attacks")
        try:
            made.start()
            yield made
        finally:
            made.stop()


def ports(plane: ControlPlane) -> dict[str, int]:
    documents = yaml.safe_load_all((plane.directory / "kwok.yaml").read_text())
    options = next(document["options"] for document in documents if "options" in document)
    return {name: value for name, value in options.items() if name.endswith("Port")}


def ask(port: int, context: ssl.SSLContext | None, method: str, path: str, body: str = "") -> int:
    """Send one HTTP request and return the status code; use TLS if `context` is given."""
    connection = (
        http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
        if context is None
        else http.client.HTTPSConnection("127.0.0.1", port, timeout=LIMIT, context=context)
    )
    try:
        connection.request(method, path, body or None)
        return connection.getresponse().status
    finally:
        connection.close()


def anybody() -> ssl.SSLContext:
    """Return a TLS context without a client certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@pytest.mark.parametrize("port", ["etcdPort", "etcdPeerPort"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS without a certificate"])
def test_etcd_answers_nobody_without_a_certificate(
    plane: ControlPlane, port: str, tls: bool
) -> None:
    for method, path in (("POST", "/v3/kv/range"), ("GET", "/version"), ("GET", "/members")):
        try:
            status = ask(ports(plane)[port], anybody() if tls else None, method, path, RANGE)
        except (OSError, http.client.HTTPException):
            # etcd closed the connection before it read the request, which is a rejection too.
            continue
        assert status >= 400


def test_the_api_server_itself_reads_etcd(plane: ControlPlane) -> None:
    access = plane.access()
    number = ports(plane)["etcdPort"]
    assert ask(number, access.context(), "POST", "/v3/kv/range", RANGE) == 200
    assert plane.is_ready()


def test_the_api_server_shows_objects_to_nobody_without_credentials(plane: ControlPlane) -> None:
    number = int(plane.access().server.rpartition(":")[2])
    for path in ("/api/v1/secrets", "/apis/apps/v1/daemonsets", "/api/v1/nodes"):
        assert ask(number, anybody(), "GET", path) in (401, 403)


def test_the_cluster_s_keys_are_its_owner_s(plane: ControlPlane) -> None:
    """Other users can't read the cluster's keys: file or folder permissions prevent this."""
    keys = [*plane.directory.rglob("*.key"), plane.kubeconfig]
    assert len(keys) >= 3
    for key in keys:
        above = [folder for folder in key.parents if folder.is_relative_to(plane.directory)]
        assert not key.stat().st_mode & 0o77 or any(not f.stat().st_mode & 0o7 for f in above)
