"""Render and install charts with the Helm engine of Pulumi's Kubernetes plugin."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, cast

import grpc
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import engine_pb2_grpc, provider_pb2, provider_pb2_grpc

from gpu_cluster_lab import toolchain
from gpu_cluster_lab.toolchain.pins import KUBERNETES

URN = "urn:pulumi:lab::lab::kubernetes:helm.sh/v3:Release::lab"
INSTALL_LIMIT = 300
"""Timeout in seconds for the installation of a release."""
LIMIT = 60
"""Timeout in seconds for one response of the plugin."""

Json = dict[str, Any]


class HelmRefused(Exception):
    """Error: the chart rejects its values; the message is Helm's."""


class _Engine(engine_pb2_grpc.EngineServicer):
    def Log(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()


class Helm:
    """Process of Pulumi's Kubernetes plugin, which contains Helm's engine."""

    def __init__(self, folder: Path, kubeconfig: Path | None = None) -> None:
        """Start the process of Pulumi's Kubernetes plugin.

        Args:
            folder: Home folder of the plugin, also for its temporary files; created if missing.
            kubeconfig: Kubeconfig of the cluster to install into. None: charts are only rendered.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._server = grpc.server(ThreadPoolExecutor(2))
        engine_pb2_grpc.add_EngineServicer_to_server(_Engine(), self._server)
        address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        tool = toolchain.ensure("pulumi-resource-kubernetes")["pulumi-resource-kubernetes"]
        self._process = subprocess.Popen(
            [str(tool.path), address],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # The plugin writes the given kubeconfig to a temporary file, and leaves it there.
            env={
                **os.environ,
                "HOME": str(folder),
                "KUBECONFIG": str(folder / "none"),
                "TMPDIR": str(folder),
            },
        )
        self._output = cast("IO[bytes]", self._process.stdout)
        port = int(self._output.readline())
        options = [("grpc.max_receive_message_length", 1 << 28), ("grpc.enable_http_proxy", 0)]
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=options)
        self._stub = provider_pb2_grpc.ResourceProviderStub(self._channel)
        variables = {"kubernetes:config:renderYamlToDirectory": str(folder / "rendered")}
        if kubeconfig is not None:
            variables = {"kubernetes:config:kubeconfig": kubeconfig.read_text()}
        request = provider_pb2.ConfigureRequest(variables=variables, acceptSecrets=True)
        self._stub.Configure(request, timeout=LIMIT)

    def close(self) -> None:
        """Stop the plugin's process and close its connections."""
        self._process.terminate()
        self._process.wait(LIMIT)
        self._output.close()
        self._channel.close()
        self._server.stop(None).wait()

    def render(
        self, chart: Path, values: Mapping[str, Any], namespace: str, release: str = ""
    ) -> list[Json]:
        """Return the objects of a release.

        Args:
            chart: Folder of the chart.
            namespace: Namespace of the release.
            release: Name of the release; empty for the name of the folder.

        Raises:
            HelmRefused: The chart calls `fail`, or Helm can't render it.
        """
        options = {
            "path": str(chart),
            "release_name": release or chart.name,
            "namespace": namespace,
            "values": dict(values),
            "kube_version": f"v{KUBERNETES}",
            "api_versions": ["resource.k8s.io/v1/DeviceClass"],
            "skip_crd_rendering": True,
        }
        arguments = struct_pb2.Struct()
        arguments.update({"jsonOpts": json.dumps(options)})
        request = provider_pb2.InvokeRequest(tok="kubernetes:helm:template", args=arguments)
        try:
            answer = self._stub.Invoke(request, timeout=LIMIT)
        except grpc.RpcError as error:
            raise HelmRefused(error.details()) from None
        objects: list[Json] = _as_whole_numbers(
            json_format.MessageToDict(answer)["return"]["result"]
        )
        return objects

    def install(self, release: str, chart: Path, values: Mapping[str, Any], namespace: str) -> None:
        """Install a Helm release and wait until its pods are ready, as `helm install --wait` does.

        Raises:
            HelmRefused: Helm can't install the release.
        """
        inputs = struct_pb2.Struct()
        inputs.update(
            {
                "name": release,
                "namespace": namespace,
                "chart": str(chart),
                "values": dict(values),
                "createNamespace": True,
                "timeout": INSTALL_LIMIT,
            }
        )
        request = provider_pb2.CreateRequest(urn=URN, properties=inputs, timeout=INSTALL_LIMIT)
        try:
            self._stub.Create(request, timeout=INSTALL_LIMIT)
        except grpc.RpcError as error:
            raise HelmRefused(error.details()) from None


def _as_whole_numbers(tree: Any) -> Any:
    """Convert whole floating-point numbers to integers.

    The plugin's gRPC protocol transports every number as floating-point.
    """
    if isinstance(tree, dict):
        return {key: _as_whole_numbers(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_as_whole_numbers(item) for item in tree]
    return int(tree) if isinstance(tree, float) and tree.is_integer() else tree
