"""Fake of HAMi's device plugin for a real kubelet: it advertises GPUs, and hands out none.

It registers GPUs at the kubelet and at HAMi's scheduler, and confirms each pod that the scheduler
has placed. It refuses what HAMi's plugin refuses. Sources: Project-HAMi/HAMi v2.10.0 (4707fb02),
pkg/device-plugin/nvidiadevice/nvinternal/plugin (server.go, `Allocate`; util.go,
`popNextContainerDevices`, `podAllocationTrySuccess`; register.go), pkg/util/util.go
(`GetPendingPod`) and pkg/util/nodelock/nodelock.go; k8s.io/kubelet v0.36.3,
pkg/apis/deviceplugin/v1beta1/api.proto.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from gpu_cluster_lab.simulator.controller import hami
from gpu_cluster_lab.simulator.controller.devices import whole
from gpu_rules.kube.gpu_resources import GPU
from lab.real.lab import GPUS, Json

SPLIT: Final = 10
"""Number of pods that one GPU takes (charts/hami/values.yaml, devicePlugin.deviceSplitCount)."""
LOCK: Final = "hami.io/mutex.lock"
TO_ALLOCATE: Final = "hami.io/vgpu-devices-to-allocate"
ENDPOINT: Final = "fake-hami.sock"
LIMIT: Final = 60.0
_API: Final = "v1beta1"
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Empty": (),
        "RegisterRequest": ("version", "endpoint", "resource_name"),
        "DevicePluginOptions": (),
        "Device": ("ID", "health"),
        "ListAndWatchResponse": ("devices: Device",),
        "ContainerAllocateRequest": ("devices_ids: string",),
        "AllocateRequest": ("container_requests: ContainerAllocateRequest",),
        "ContainerAllocateResponse": (),
        "AllocateResponse": ("container_responses: ContainerAllocateResponse",),
    }
)
"""Fields of the messages by their numbers, from 1; a field with a type is a list."""


def messages() -> dict[str, Any]:
    """Return the classes of the kubelet's messages, by name."""
    file = descriptor_pb2.FileDescriptorProto(
        name="deviceplugin.proto", package=_API, syntax="proto3"
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for number, text in enumerate(fields, 1):
            field_name, _, type_name = text.partition(": ")
            field = message.field.add(
                name=field_name,
                number=number,
                label=kinds.LABEL_REPEATED if type_name else kinds.LABEL_OPTIONAL,
                type=kinds.TYPE_STRING,
            )
            if type_name not in ("", "string"):
                field.type, field.type_name = kinds.TYPE_MESSAGE, f".{_API}.{type_name}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_API}.{name}"))
        for name in _FIELDS
    }


class Cluster(Protocol):
    """API server of the node."""

    def request(self, method: str, path: str, body: Json | None = None) -> Any:
        """Send one request and return the response."""


class FakePlugin:
    """Fake of HAMi's device plugin on one real node, which serves the kubelet's requests."""

    def __init__(self, cluster: Cluster, node: str, folder: Path) -> None:
        """Prepare the server.

        Args:
            cluster: API server of the node.
            node: Name of the node.
            folder: The kubelet's folder `device-plugins`, as seen from this machine.
        """
        self._cluster = cluster
        self._node = node
        self._folder = folder
        self._messages = messages()
        self._allocating = threading.Lock()
        self._ended = threading.Event()
        self._gpus = whole(node, range(GPUS))
        self._server = grpc.server(ThreadPoolExecutor(4))

    def start(self) -> None:
        """Register the GPUs at HAMi's scheduler, by the node's annotation, and at the kubelet."""
        text = hami.registration(self._gpus, self._gpus, {"deviceSplitCount": SPLIT})
        self._annotate(f"/api/v1/nodes/{self._node}", {hami.REGISTERED: text})
        options = grpc.unary_unary_rpc_method_handler(
            lambda _request, _context: self._messages["DevicePluginOptions"](),
            self._messages["Empty"].FromString,
            _serialized,
        )
        devices = grpc.unary_stream_rpc_method_handler(
            self._list, self._messages["Empty"].FromString, _serialized
        )
        allocate = grpc.unary_unary_rpc_method_handler(
            self._allocate, self._messages["AllocateRequest"].FromString, _serialized
        )
        methods = {
            "GetDevicePluginOptions": options,
            "ListAndWatch": devices,
            "Allocate": allocate,
        }
        service = grpc.method_handlers_generic_handler(f"{_API}.DevicePlugin", methods)
        self._server.add_generic_rpc_handlers((service,))
        self._server.add_insecure_port(f"unix:{self._folder / ENDPOINT}")
        self._server.start()
        with grpc.insecure_channel(f"unix:{self._folder / 'kubelet.sock'}") as channel:
            register = channel.unary_unary(
                f"/{_API}.Registration/Register",
                _serialized,
                self._messages["Empty"].FromString,
            )
            request = self._messages["RegisterRequest"](
                version=_API, endpoint=ENDPOINT, resource_name=GPU
            )
            register(request, timeout=LIMIT)

    def stop(self) -> None:
        """Stop the server; the kubelet then sets the node's allocatable GPUs to 0."""
        self._ended.set()
        self._server.stop(0).wait(LIMIT)

    def _list(self, _request: object, _context: object) -> Iterator[Any]:
        device = self._messages["Device"]
        yield self._messages["ListAndWatchResponse"](
            devices=[
                device(ID=f"{gpu.uuid}::{replica}", health="Healthy")
                for gpu in self._gpus
                for replica in range(SPLIT)
            ]
        )
        self._ended.wait()

    def _allocate(self, request: Any, context: Any) -> Any:
        """Confirm the next containers of the pod that holds the lock of the node."""
        with self._allocating:
            node_path = f"/api/v1/nodes/{self._node}"
            lock = _annotations(self._cluster.request("GET", node_path)).get(LOCK, "")
            _, _, place = lock.partition(",")
            namespace, _, name = place.partition(",")
            if not name:
                context.abort(grpc.StatusCode.UNKNOWN, f"no binding pod found on node {self._node}")
            pod_path = f"/api/v1/namespaces/{namespace}/pods/{name}"
            waiting = list(
                hami.decode(
                    _annotations(self._cluster.request("GET", pod_path)).get(TO_ALLOCATE, "")
                )
            )
            for asked in request.container_requests:
                position = next((i for i, shares in enumerate(waiting) if shares), None)
                number = 0 if position is None else len(waiting[position])
                if position is None or number != len(asked.devices_ids):
                    self._annotate(pod_path, {hami.PHASE: "failed"})
                    self._annotate(node_path, {LOCK: None})
                    context.abort(grpc.StatusCode.UNKNOWN, "device number not matched")
                else:
                    waiting[position] = ()
            notes: dict[str, str | None] = {TO_ALLOCATE: hami.encode(tuple(waiting))}
            if any(waiting):
                self._annotate(pod_path, notes)
            else:
                self._annotate(pod_path, {**notes, hami.PHASE: "success"})
                self._annotate(node_path, {LOCK: None})
            answers = [
                self._messages["ContainerAllocateResponse"]() for _ in request.container_requests
            ]
            return self._messages["AllocateResponse"](container_responses=answers)

    def _annotate(self, path: str, notes: Mapping[str, str | None]) -> None:
        self._cluster.request("PATCH", path, {"metadata": {"annotations": dict(notes)}})


def _serialized(message: Any) -> bytes:
    serialized: bytes = message.SerializeToString()
    return serialized


def _annotations(item: Json) -> dict[str, str]:
    return item["metadata"].get("annotations") or {}
