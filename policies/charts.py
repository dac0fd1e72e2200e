"""Helm releases judged by the objects that their chart renders, where it is on this machine.

The Kubernetes plugin renders it, as it would deploy it: the engine needs that plugin for the
release anyway. A chart that is not in a folder here, or values that are not known yet, leave the
release to the rules on values; where rendering fails, `NotRendered` says why.
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

from .rules import UNKNOWN, Context, Violation, evaluate
from .rules.unknown import mapping, text

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
KUBE_VERSION = "v1.36.3"
"""Charts are rendered for this Kubernetes: that of the embedded cluster."""
_MESSAGE_LIMIT = 256 * 1024 * 1024
_NO_ENGINE = "127.0.0.1:1"
"""Simulates the engine: nobody's plugin, for those who end what an engine left behind."""


class NotRendered(Exception):
    """Why the objects of a chart that is here are not known."""


def judge_rendered(props: Mapping[str, object], context: Context) -> list[Violation]:
    """The violations of the objects of a release. `props`: its inputs as plain data.

    Raises:
        NotRendered: the chart is here, and its objects are not known.
    """
    name = text(props.get("name")) or text(props.get("chart")).rpartition("/")[2]
    return [
        dataclasses.replace(violation, subject=f"{violation.subject} of release {name}")
        for manifest in rendered(props)
        for violation in evaluate(manifest, context)
    ]


def rendered(props: Mapping[str, object]) -> tuple[Mapping[str, object], ...]:
    """The objects of a release's chart, empty where it is not here or its values are not known.

    Raises:
        NotRendered: the chart is here, and its objects are not known.
    """
    folder = chart_folder(text(props.get("chart")))
    values = props.get("values", {})
    if folder is None or mapping(props.get("repositoryOpts")) or _unknown(values):
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
    """The folder of a chart: as it is, or below the folder that the engine was started in."""
    for base in dict.fromkeys(
        ("", os.environ.get("PWD", ""), os.environ.get("GPU_CLUSTER_HOME", ""))
    ):
        folder = Path(base, chart)
        if chart and "/" in chart and (folder / "Chart.yaml").is_file():
            return folder.resolve()
    return None


def _release_name(folder: str) -> str:
    """A name for a release that the engine will name: the folder's, as Helm takes it."""
    return re.sub("[^a-z0-9]+", "-", folder.lower())[:53].strip("-") or "release"


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

    arguments = Struct()
    arguments.update({"jsonOpts": options})
    with _plugin() as stub:
        try:
            stub.Configure(provider_pb2.ConfigureRequest(), timeout=_LIMIT)
            request = provider_pb2.InvokeRequest(tok=_INVOKE, args=arguments)
            answer = stub.Invoke(request, timeout=_LIMIT)
        except grpc.RpcError as error:
            raise NotRendered(error.details() or str(error.code())) from error
    result = MessageToDict(getattr(answer, "return")).get("result", [])
    return tuple(map(mapping, result))


def plugin_path() -> str | None:
    """The Kubernetes plugin: on PATH, or where the engine keeps the plugins that it fetched."""
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    kept = sorted(home.glob(f"plugins/resource-kubernetes-v*/{PLUGIN}"))
    return shutil.which(PLUGIN) or (str(kept[-1]) if kept else None)


@contextlib.contextmanager
def _plugin() -> Iterator[Any]:
    """A plugin of our own for one chart, with a folder of its own for its temporary files.

    One for all charts would end after 5 minutes, because no engine answers it (pulumi v3.250.0
    pkg/resource/provider/main.go, sdk/go/common/util/rpcutil/health.go). Its cluster is one that
    nobody serves: to render it wants clients, not answers (pulumi-kubernetes 4.25.0 provider.go
    Configure, clients.go IsNamespacedKind).
    """
    import grpc
    from pulumi.runtime.proto import provider_pb2_grpc

    path = plugin_path()
    if path is None:
        raise NotRendered(f"{PLUGIN} is neither on PATH nor among the engine's plugins")
    with (
        tempfile.TemporaryDirectory(prefix="gpu-cluster-chart-") as folder,
        _started([path, _NO_ENGINE], folder) as port,
    ):
        if not port.isdecimal():
            raise NotRendered(f"{path} did not start: {port or 'it said nothing'}")
        limits = [("grpc.max_receive_message_length", _MESSAGE_LIMIT)]
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=limits) as channel:
            stub: Any = provider_pb2_grpc.ResourceProviderStub(channel)
            yield stub


@contextlib.contextmanager
def _started(command: list[str], folder: str) -> Iterator[str]:
    """The first line that a program says, which runs until the block ends."""
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
        limit = threading.Timer(2 * _LIMIT, process.kill)  # also where it says nothing at all
        limit.start()
        try:
            yield process.stdout.readline().strip() if process.stdout else ""
        finally:
            limit.cancel()
            process.kill()
