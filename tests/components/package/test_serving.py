"""The component package's server: who may call it, and how the engine gets a refusal."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import errors_pb2, provider_pb2, provider_pb2_grpc, status_pb2

from gpu_cluster.package.serving import Refusal, place, started
from tests.components.package.kubeconfig import CANARY, KUBECONFIG


def call(method: str, request: Any, refusal: Refusal = lambda *_: "") -> Any:
    """Call a method of a server of the package, as the engine does."""

    async def run() -> Any:
        server, port = await started("127.0.0.1:1", refusal)
        try:
            async with grpc.aio.insecure_channel(
                f"127.0.0.1:{port}", options=(("grpc.enable_http_proxy", 0),)
            ) as channel:
                stub = provider_pb2_grpc.ResourceProviderStub(channel)
                return await getattr(stub, method)(request, timeout=30)
        finally:
            await server.stop(None)

    return asyncio.run(run())


def test_the_engine_gets_the_schema_and_the_version() -> None:
    answer = call("GetSchema", provider_pb2.GetSchemaRequest(version=0))
    schema = json.loads(answer.schema)
    assert schema["name"] == "gpucluster"
    assert call("GetPluginInfo", empty_pb2.Empty()).version == schema["version"]


@pytest.mark.promise("The component package refuses calls of other users of the machine.")
def test_a_call_of_another_user_is_refused() -> None:
    seen = []

    def refusal(peer: str, port: int) -> str:
        seen.append((peer, port))
        return "found a call by user 1234"

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        call("GetSchema", provider_pb2.GetSchemaRequest(version=0), refusal)
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    ((peer, port),) = seen
    assert peer.startswith("ipv4:127.0.0.1:")
    assert port > 0


def test_the_engine_gets_the_path_of_a_refused_property() -> None:
    inputs = struct_pb2.Struct()
    inputs.update({"kubernetes": {"context": "c"}, "platform": "device-plugin", "pools": []})
    request = provider_pb2.ConstructRequest(
        type="gpucluster:index:GpuCluster", name="site", inputs=inputs, project="p", stack="s"
    )
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        call("Construct", request)
    details = dict(caught.value.trailing_metadata() or ())["grpc-status-details-bin"]
    status = status_pb2.Status.FromString(details)
    found = errors_pb2.InputPropertiesError()
    assert status.details[0].Unpack(found)
    assert [error.property_path for error in found.errors] == ["pools"]


def test_a_fault_of_the_cluster_is_shown_without_a_traceback() -> None:
    inputs = struct_pb2.Struct()
    inputs.update({"kubernetes": {"context": "c"}, "platform": "device-plugin"})
    inputs.update({"pools": [{"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8}]})
    inputs.update({"kubeconfig": KUBECONFIG})
    request = provider_pb2.ConstructRequest(
        type="gpucluster:index:GpuCluster", name="site", inputs=inputs, project="p", stack="s"
    )
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        call("Construct", request)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    text = str(caught.value.details())
    assert text.startswith("kubernetes.context of gpucluster site: found c")
    assert CANARY not in text


def test_the_link_follows_the_package_and_is_never_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    link = tmp_path / "home" / "gpu-cluster"
    for name in ("one", "two", "two"):
        (tmp_path / name).mkdir(exist_ok=True)
        place(tmp_path / name)
        assert link.resolve() == tmp_path / name
    assert [path.name for path in link.parent.iterdir()] == ["gpu-cluster"]
