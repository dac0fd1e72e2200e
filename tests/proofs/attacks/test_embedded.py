"""Attack: another local user connects to the ports of the embedded cluster."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator.control_plane import TOOLS, ControlPlane
from gpu_cluster_lab.simulator.controller import kubelet
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


def listening(plane: ControlPlane) -> set[int]:
    """Return the ports at which processes of the cluster listen."""
    found = set()
    for pid in plane.pids().values():
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.add(os.readlink(link))
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path("/proc/net", table).read_text().splitlines()[1:]
    ]
    state, place, inode = 3, 1, 9
    return {
        int(row[place].rpartition(":")[2], 16)
        for row in rows
        if row[state] == "0A" and f"socket:[{row[inode]}]" in found
    }


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


def test_the_cluster_s_files_are_its_owner_s(plane: ControlPlane) -> None:
    """Neither the owner's group nor other users can enter the cluster's folder."""
    assert len([*plane.directory.rglob("*.key"), plane.kubeconfig]) >= 3
    assert plane.directory.stat().st_mode & 0o777 == 0o700


def test_each_port_needs_a_login(plane: ControlPlane) -> None:
    """A port refuses what has no certificate, or does not tell it more than its health."""
    opened = listening(plane)
    assert {*ports(plane).values()} - opened == {plane.log_port}
    for port in opened:
        for context in (None, anybody()):
            for path in ("/debug/pprof/", "/metrics", "/containerLogs/a/b/c", "/configz"):
                try:
                    status = ask(port, context, "GET", path)
                except (OSError, http.client.HTTPException):
                    continue
                assert status >= 400, f"{port}{path}"


def test_logs_of_nodes_are_served_to_the_api_server_only(plane: ControlPlane) -> None:
    port, path = plane.log_port, "/containerLogs/team/train/main"

    async def served() -> list[int]:
        serving = asyncio.create_task(kubelet.serve_logs(plane.access(), plane.logs, port))
        await asyncio.sleep(0)
        statuses = []
        for context in (None, anybody(), plane.access().context()):
            try:
                statuses.append(await asyncio.to_thread(ask, port, context, "GET", path))
            except (OSError, http.client.HTTPException):
                statuses.append(0)
        serving.cancel()
        return statuses

    *refused, admitted = asyncio.run(served())
    assert all(status == 0 or status >= 400 for status in refused)
    assert admitted == 200


def test_no_object_makes_the_cluster_read_a_file(plane: ControlPlane) -> None:
    """Kwok's `Logs` and `ClusterLogs` would name any file of the engineer."""
    access = plane.access()
    number = int(access.server.rpartition(":")[2])
    assert ask(number, access.context(), "GET", "/apis/kwok.x-k8s.io/v1alpha1/logs") == 404
    assert "logsFile" not in (plane.directory / "kwok.yaml").read_text()
