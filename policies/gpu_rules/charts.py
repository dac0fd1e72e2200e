"""Render the Helm chart of a Pulumi `Release` resource, and apply the GPU rules to its objects.

Pulumi's Kubernetes provider plugin renders the chart in the same way as in a deployment; the Pulumi
engine needs this plugin for the release anyway. Only charts in a local folder are rendered. If the
chart comes from a repository, or if a value is not known during a preview, nothing is rendered, and
only the release's inputs are checked. If rendering fails, `NotRendered` gives the reason.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .facts.kubernetes import KUBE_VERSION
from .rules import UNKNOWN, Context, Violation, evaluate
from .rules.unknown import mapping, text

PLUGIN = "pulumi-resource-kubernetes"
_INVOKE = "kubernetes:helm:template"
_LIMIT = 30.0
"""Time limit for rendering a chart, in seconds; the GPU stack's largest chart needs under 1 s."""
_NO_CLUSTER: Mapping[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "none",
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "none", "user": {}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
}
_MESSAGE_LIMIT = 256 * 1024 * 1024
_NO_ENGINE = "127.0.0.1:1"
"""Placeholder for the address of the Pulumi engine in the plugin's command line.

The clean-up that ends plugins whose engine has exited skips plugins with this address.
"""


class NotRendered(Exception):
    """Rendering a Helm chart in a local folder failed; the message is the reason."""


def judge_rendered(props: Mapping[str, object], context: Context) -> list[Violation]:
    """Return the rule violations of the objects that a Helm release's chart renders.

    Args:
        props: Inputs of the `Release` resource as plain data.

    Raises:
        NotRendered: The chart is in a local folder, but its objects could not be rendered.
    """
    name = text(props.get("name")) or text(props.get("chart")).rpartition("/")[2]
    return [
        dataclasses.replace(violation, subject=f"{violation.subject} of release {name}")
        for manifest in rendered(props)
        for violation in evaluate(manifest, context)
    ]


def rendered(props: Mapping[str, object]) -> tuple[Mapping[str, object], ...]:
    """Return the objects that a Helm release's chart renders.

    The result is empty if the chart is not in a local folder or a chart value is not known yet.

    Raises:
        NotRendered: The chart is in a local folder, but its objects could not be rendered.
    """
    folder = chart_folder(text(props.get("chart")))
    values = props.get("values", {})
    if folder is None or mapping(props.get("repositoryOpts")) or _is_unknown(values):
        return ()
    options = {
        "chart": folder.name,
        "path": str(folder.parent),
        "release_name": text(props.get("name")) or _release_name(folder.name),
        "namespace": text(props.get("namespace")) or "default",
        "skip_crd_rendering": True,
        "kube_version": KUBE_VERSION,
        "values": values,
    }
    return _render(json.dumps(options, sort_keys=True))


def chart_folder(chart: str) -> Path | None:
    """Return the folder of a local Helm chart, or None if the path is not such a folder.

    A relative path is tried in the current directory, in `$PWD` (where the Pulumi engine was
    started) and in `$GPU_CLUSTER_HOME`.
    """
    for base in dict.fromkeys(
        ("", os.environ.get("PWD", ""), os.environ.get("GPU_CLUSTER_HOME", ""))
    ):
        folder = Path(base, chart)
        if chart and "/" in chart and (folder / "Chart.yaml").is_file():
            return folder.resolve()
    return None


def _release_name(folder: str) -> str:
    """Return a valid Helm release name made from the chart's folder name.

    The Pulumi engine chooses the real name when it deploys the release.
    """
    return re.sub("[^a-z0-9]+", "-", folder.lower())[:53].strip("-") or "release"


def _is_unknown(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_is_unknown, value.values()))
    if isinstance(value, list):
        return any(map(_is_unknown, value))
    return value is UNKNOWN


@functools.lru_cache(maxsize=16)
def _render(options: str) -> tuple[Mapping[str, object], ...]:
    import grpc
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.struct_pb2 import Struct
    from pulumi.runtime.proto import provider_pb2

    arguments = Struct()
    arguments.update({"jsonOpts": options})
    with _start_plugin() as stub:
        try:
            stub.Configure(provider_pb2.ConfigureRequest(), timeout=_LIMIT)
            request = provider_pb2.InvokeRequest(tok=_INVOKE, args=arguments)
            response = stub.Invoke(request, timeout=_LIMIT)
        except grpc.RpcError as error:
            raise NotRendered(error.details() or str(error.code())) from error
    result = MessageToDict(getattr(response, "return")).get("result", [])
    return tuple(map(mapping, result))


def plugin_path() -> str | None:
    """Return the path of Pulumi's Kubernetes provider plugin, or None if it is not installed.

    A plugin on `PATH` takes precedence over the plugins that the Pulumi engine has downloaded.
    """
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    installed = sorted(home.glob(f"plugins/resource-kubernetes-v*/{PLUGIN}"))
    return shutil.which(PLUGIN) or (str(installed[-1]) if installed else None)


@contextlib.contextmanager
def _start_plugin() -> Iterator[Any]:
    """Start Pulumi's Kubernetes provider plugin for one chart and yield its gRPC stub.

    Each chart gets its own plugin process. A process shared by all charts would exit after 5
    minutes, because it is started without a Pulumi engine that answers its health check (pulumi
    v3.250.0 pkg/resource/provider/main.go, sdk/go/common/util/rpcutil/health.go). The plugin's
    kubeconfig names a server that does not exist: rendering needs a client object but sends no
    request (pulumi-kubernetes 4.25.0 provider.go Configure, clients.go IsNamespacedKind).
    """
    import grpc
    from pulumi.runtime.proto import provider_pb2_grpc

    path = plugin_path()
    if path is None:
        raise NotRendered(f"{PLUGIN} is neither on PATH nor among the engine's plugins")
    with (
        tempfile.TemporaryDirectory(prefix="gpu-cluster-chart-") as folder,
        _start_program([path, _NO_ENGINE], folder) as port,
    ):
        if not port.isdecimal():
            raise NotRendered(f"{path} did not start: {port or 'it said nothing'}")
        # The plugin is on this machine, which a proxy can't reach.
        options = [
            ("grpc.max_receive_message_length", _MESSAGE_LIMIT),
            ("grpc.enable_http_proxy", 0),
        ]
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            stub: Any = provider_pb2_grpc.ResourceProviderStub(channel)
            yield stub


@contextlib.contextmanager
def _start_program(command: list[str], folder: str) -> Iterator[str]:
    """Run a program until the `with` block ends, and yield the first line that it prints."""
    kubeconfig = Path(folder, "kubeconfig")
    kubeconfig.write_text(json.dumps(_NO_CLUSTER))
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "KUBECONFIG": str(kubeconfig), "TMPDIR": folder},
    )
    with process:
        # The timer also kills a program that prints nothing; readline would wait for it forever.
        limit = threading.Timer(2 * _LIMIT, process.kill)
        limit.start()
        try:
            yield process.stdout.readline().strip() if process.stdout else ""
        finally:
            limit.cancel()
            process.kill()
