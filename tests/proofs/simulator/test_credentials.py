"""Credentials of a kubeconfig: the temporary files for TLS are deleted after they were read."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.kubernetes.api import ClusterError, Refused, connect
from tests.proofs.simulator.running import Json, Running


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set Python's folder for temporary files to a new folder; return the folder."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def files(scratch: Path) -> list[Path]:
    return [path for path in scratch.rglob("*") if path.is_file()]


def as_user(cluster: Running, tmp_path: Path, user: Json, monkeypatch: Any) -> str:
    """Write a kubeconfig in which another user accesses the cluster; return its context."""
    document = yaml.safe_load(cluster.embedded.kubeconfig.read_text())
    for entry in document["users"]:
        entry["user"] = user
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    monkeypatch.setenv("KUBECONFIG", str(path))
    return str(document["current-context"])


def test_keys_are_in_no_file_once_the_client_has_logged_in(
    cluster: Running, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.embedded.kubeconfig))

    async def nodes() -> int:
        async with connect(cluster.embedded.context) as client:
            assert files(scratch) == []
            return len(await client.list("nodes"))

    assert asyncio.run(nodes()) == 4
    assert list(scratch.iterdir()) == []


def test_a_refused_request_leaves_no_file(
    cluster: Running, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = cluster.request(
        "POST",
        "/api/v1/namespaces/default/serviceaccounts/default/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    )["status"]["token"]
    context = as_user(cluster, tmp_path, {"token": token}, monkeypatch)

    async def secrets() -> None:
        async with connect(context) as client:
            # Any user may read whether the API server is ready, so no rights are needed.
            assert await client.is_ready()
            with pytest.raises(Refused, match="cannot list resource"):
                await client.list("secrets")

    asyncio.run(secrets())
    assert list(scratch.iterdir()) == []


def plugin(script: str) -> Json:
    """Return a kubeconfig user whose credentials come from an exec plugin."""
    api = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": api, "command": "sh", "args": ["-c", script]}}


def test_keys_that_a_plugin_gives_are_in_no_file_either(
    cluster: Running, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = yaml.safe_load(cluster.embedded.kubeconfig.read_text())
    user = next(entry["user"] for entry in document["users"] if "client-key-data" in entry["user"])
    keys = {"clientCertificateData": "client-certificate-data", "clientKeyData": "client-key-data"}
    status = {key: base64.b64decode(user[name]).decode() for key, name in keys.items()}
    (tmp_path / "credential").write_text(json.dumps({"status": status}))
    context = as_user(cluster, tmp_path, plugin(f"cat {tmp_path / 'credential'}"), monkeypatch)

    async def nodes() -> int:
        async with connect(context) as client:
            assert files(scratch) == []
            return len(await client.list("nodes"))

    assert asyncio.run(nodes()) == 4
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("user", "why"),
    [
        ({"token": "expired"}, r"the API server rejects \(Unauthorized\)"),
        (plugin("echo session expired >&2; exit 1"), r"plugin that failed .*session expired"),
        (plugin("echo '{}'"), "no usable context of that name"),
    ],
    ids=["refused", "no credentials", "nonsense"],
)
def test_credentials_that_are_not_had_are_an_error_with_its_cure(
    cluster: Running,
    scratch: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    user: Json,
    why: str,
) -> None:
    context = as_user(cluster, tmp_path, user, monkeypatch)

    async def log_in() -> None:
        async with connect(context):
            pass

    with pytest.raises(ClusterError, match=why) as caught:
        asyncio.run(log_in())
    assert "; cure: " in str(caught.value)
    assert list(scratch.iterdir()) == []
