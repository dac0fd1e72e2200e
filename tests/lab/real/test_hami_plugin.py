"""The fake of HAMi's device plugin confirms and refuses pods as HAMi's own plugin does."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from gpu_cluster_lab.simulator.controller import hami
from gpu_cluster_lab.simulator.controller.devices import whole
from gpu_rules.kube.gpu_resources import GPU
from lab.real import hami_plugin
from lab.real.hami_plugin import LOCK, SPLIT, TO_ALLOCATE, FakePlugin
from lab.real.lab import GPUS

Json = dict[str, Any]
NODE, POD = "/api/v1/nodes/real-1", "/api/v1/namespaces/team/pods/share"
SHARE = hami.Share(whole("real-1", [3])[0].uuid, 3000, 30)


class Cluster:
    """Annotations of a node and of the pod that HAMi's scheduler placed there."""

    def __init__(self) -> None:
        placed = hami.encode(((), (SHARE,)))
        self.notes: dict[str, dict[str, str]] = {
            NODE: {LOCK: "2026-11-30T12:00:00Z,team,share"},
            POD: {TO_ALLOCATE: placed, hami.PHASE: "allocating"},
        }

    def request(self, method: str, path: str, body: Json | None = None) -> Json:
        if method == "PATCH" and body is not None:
            changed = {**self.notes[path], **body["metadata"]["annotations"]}
            self.notes[path] = {key: text for key, text in changed.items() if text is not None}
        return {"metadata": {"annotations": self.notes[path]}}


class Kubelet:
    """The kubelet's side of both services."""

    def __init__(self, folder: Path) -> None:
        self.messages = hami_plugin.messages()
        self.registered: list[Any] = []
        self._folder = folder
        self._server = grpc.server(ThreadPoolExecutor(1))
        register = grpc.unary_unary_rpc_method_handler(
            self._register,
            self.messages["RegisterRequest"].FromString,
            lambda message: message.SerializeToString(),
        )
        service = grpc.method_handlers_generic_handler(
            "v1beta1.Registration", {"Register": register}
        )
        self._server.add_generic_rpc_handlers((service,))
        self._server.add_insecure_port(f"unix:{folder / 'kubelet.sock'}")
        self._server.start()

    def _register(self, request: Any, _context: object) -> Any:
        self.registered.append(request)
        return self.messages["Empty"]()

    def devices(self) -> list[str]:
        with self._channel() as channel:
            listed = channel.unary_stream(
                "/v1beta1.DevicePlugin/ListAndWatch",
                lambda message: message.SerializeToString(),
                self.messages["ListAndWatchResponse"].FromString,
            )
            first = next(iter(listed(self.messages["Empty"](), timeout=30)))
            return [device.ID for device in first.devices]

    def allocate(self, *ids: str) -> int:
        request = self.messages["AllocateRequest"](
            container_requests=[self.messages["ContainerAllocateRequest"](devices_ids=ids)]
        )
        with self._channel() as channel:
            allocate = channel.unary_unary(
                "/v1beta1.DevicePlugin/Allocate",
                lambda message: message.SerializeToString(),
                self.messages["AllocateResponse"].FromString,
            )
            return len(allocate(request, timeout=30).container_responses)

    def _channel(self) -> grpc.Channel:
        endpoint = self.registered[0].endpoint
        return grpc.insecure_channel(f"unix:{self._folder / endpoint}")

    def stop(self) -> None:
        self._server.stop(0).wait(30)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def kubelet(cluster: Cluster) -> Iterator[Kubelet]:
    # A socket's path has at most 107 characters (unix(7)); that of `tmp_path` may be longer.
    with tempfile.TemporaryDirectory(prefix="hami-", dir="/tmp") as name:
        served = Kubelet(Path(name))
        plugin = FakePlugin(cluster, "real-1", Path(name))
        plugin.start()
        yield served
        plugin.stop()
        served.stop()


def test_each_gpu_is_registered_several_times(kubelet: Kubelet, cluster: Cluster) -> None:
    (request,) = kubelet.registered
    assert (request.version, request.resource_name) == ("v1beta1", GPU)
    assert len(set(kubelet.devices())) == GPUS * SPLIT
    node = {"metadata": {"annotations": cluster.notes[NODE]}}
    assert len(hami.read_gpus(node)) == GPUS


def test_a_placed_pod_is_confirmed_and_its_node_is_free_again(
    kubelet: Kubelet, cluster: Cluster
) -> None:
    assert kubelet.allocate("any::0") == 1
    assert cluster.notes[POD] == {TO_ALLOCATE: ";;", hami.PHASE: "success"}
    assert LOCK not in cluster.notes[NODE]


def test_another_number_of_gpus_than_the_scheduler_assigned_is_refused(
    kubelet: Kubelet, cluster: Cluster
) -> None:
    with pytest.raises(grpc.RpcError, match="device number not matched"):
        kubelet.allocate("any::0", "any::1")
    assert cluster.notes[POD][hami.PHASE] == "failed"
    assert LOCK not in cluster.notes[NODE]


def test_a_pod_that_hamis_scheduler_did_not_place_is_refused(
    kubelet: Kubelet, cluster: Cluster
) -> None:
    del cluster.notes[NODE][LOCK]
    with pytest.raises(grpc.RpcError, match="no binding pod found on node real-1"):
        kubelet.allocate("any::0")
