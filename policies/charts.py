"""Helm releases judged by the objects that their chart renders, where it is on this machine.

The Kubernetes plugin renders it, as it would deploy it: the engine needs that plugin for the
release anyway. Without the plugin, without the chart's folder, or with values that are not known
yet, the release is judged by its values alone.
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from policies.rules import UNKNOWN, Context, Violation, evaluate
from policies.rules.unknown import mapping, text

PLUGIN = "pulumi-resource-kubernetes"
_INVOKE = "kubernetes:helm:template"
_LIMIT = 30.0
"""Seconds for a chart; the largest of the GPU stack takes less than one."""
_NO_CLUSTER: Mapping[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "none",
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "none", "user": {}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
}
_KUBE_VERSION = "v1.34.4"
_MESSAGE_LIMIT = 256 * 1024 * 1024


def judge_rendered(props: Mapping[str, object], context: Context) -> list[Violation]:
    """The violations of the objects of a release. `props`: its inputs as plain data."""
    name = text(props.get("name")) or text(props.get("chart")).rpartition("/")[2]
    return [
        dataclasses.replace(violation, subject=f"{violation.subject} of release {name}")
        for manifest in rendered(props)
        for violation in evaluate(manifest, context)
    ]


def rendered(props: Mapping[str, object]) -> tuple[Mapping[str, object], ...]:
    """The objects of a release's chart, empty where it cannot be rendered here."""
    folder = chart_folder(text(props.get("chart")))
    values = props.get("values", {})
    if folder is None or mapping(props.get("repositoryOpts")) or _unknown(values):
        return ()
    options = {
        "chart": folder.name,
        "path": str(folder.parent),
        "release_name": text(props.get("name")) or folder.name,
        "namespace": text(props.get("namespace")) or "default",
        "skip_crd_rendering": True,
        "kube_version": _KUBE_VERSION,
        "values": values,
    }
    return _render(json.dumps(options, sort_keys=True))


def chart_folder(chart: str) -> Path | None:
    """The folder of a chart: as it is, or below the folder that the engine was started in."""
    for base in dict.fromkeys(
        ("", os.environ.get("PWD", ""), os.environ.get("GPU_CLUSTER_HOME", ""))
    ):
        folder = Path(base, chart)
        if chart and "/" in chart and (folder / "Chart.yaml").is_file():
            return folder.resolve()
    return None


def _unknown(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_unknown, value.values()))
    if isinstance(value, list):
        return any(map(_unknown, value))
    return value is UNKNOWN


@functools.lru_cache(maxsize=16)
def _render(options: str) -> tuple[Mapping[str, object], ...]:
    import grpc
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.struct_pb2 import Struct
    from pulumi.runtime.proto import provider_pb2

    stub = _plugin()
    if stub is None:
        return ()
    arguments = Struct()
    arguments.update({"jsonOpts": options})
    try:
        request = provider_pb2.InvokeRequest(tok=_INVOKE, args=arguments)
        answer = stub.Invoke(request, timeout=_LIMIT)
    except grpc.RpcError:
        return ()  # not a chart that renders without a cluster: the deployment will say why
    result = MessageToDict(getattr(answer, "return")).get("result", [])
    return tuple(map(mapping, result))


def plugin_path() -> str | None:
    """The Kubernetes plugin: on PATH, or where the engine keeps the plugins that it fetched."""
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    kept = sorted(home.glob(f"plugins/resource-kubernetes-v*/{PLUGIN}"))
    return shutil.which(PLUGIN) or (str(kept[-1]) if kept else None)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()  # waits, and closes its output


@functools.lru_cache(maxsize=1)
def _plugin() -> Any:
    """A plugin of our own, which ends with this process; `None` where there is none.

    It is configured with a cluster that nobody serves: to render it wants clients, not answers
    (pulumi-kubernetes 4.25.0 provider.go Configure, clients.go IsNamespacedKind).
    """
    import grpc
    from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

    path = plugin_path()
    if path is None:
        return None
    process = subprocess.Popen(
        [path, "127.0.0.1:1"],  # no engine to talk to: it is dialled for log lines only
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    atexit.register(_end, process)
    port = process.stdout.readline().strip() if process.stdout else ""
    if not port.isdecimal():
        return None
    limits = [("grpc.max_receive_message_length", _MESSAGE_LIMIT)]
    stub: Any = provider_pb2_grpc.ResourceProviderStub(
        grpc.insecure_channel(f"127.0.0.1:{port}", options=limits)
    )
    settings = {"kubernetes:config:kubeconfig": json.dumps(_NO_CLUSTER)}
    try:
        stub.Configure(provider_pb2.ConfigureRequest(variables=settings), timeout=_LIMIT)
    except grpc.RpcError:
        return None
    return stub
