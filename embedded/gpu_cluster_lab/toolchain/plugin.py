"""Find out the version of a Pulumi plugin or language host over gRPC, as the engine does.

Plugins have no flag that prints their version. A plugin prints the port of its server as the first
line of standard output (``pulumi/sdk``, ``go/common/resource/plugin/plugin.go``).
"""

from __future__ import annotations

import selectors
import subprocess
import time
from pathlib import Path

from gpu_cluster.machine.orphans import NO_ENGINE

from . import versions


def ask_plugin(executable: Path, service: str, limit: float) -> str | None:
    """Start a plugin and return its version; return ``None`` if it doesn't respond in time.

    Args:
        executable: Path of the plugin.
        service: The plugin's gRPC service: ``ResourceProvider`` or ``LanguageRuntime``.
        limit: Seconds to wait for the version.
    """
    end = time.monotonic() + limit
    try:
        process = subprocess.Popen(
            [str(executable), NO_ENGINE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
    try:
        port = _first_line(process, end)
        if not port.isdecimal():
            return None
        return _plugin_version(port, service, max(0.1, end - time.monotonic()))
    finally:
        process.kill()
        process.communicate()


def _first_line(process: subprocess.Popen[bytes], end: float) -> str:
    stream = process.stdout
    if stream is None:
        return ""
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(max(0.0, end - time.monotonic())):
                return ""
            byte = stream.read1(1)  # type: ignore[attr-defined]
            if not byte:
                return ""
            line += byte
    return line.decode(errors="replace").strip()


def _plugin_version(port: str, service: str, limit: float) -> str | None:
    import grpc  # type: ignore[import-untyped, unused-ignore]
    from google.protobuf.empty_pb2 import Empty  # type: ignore[import-untyped, unused-ignore]
    from pulumi.runtime.proto.plugin_pb2 import PluginInfo

    # Without this option, gRPC would connect to loopback through a proxy of the environment.
    options = (("grpc.enable_http_proxy", 0),)
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        call = channel.unary_unary(
            f"/pulumirpc.{service}/GetPluginInfo",
            request_serializer=Empty.SerializeToString,
            response_deserializer=PluginInfo.FromString,
        )
        try:
            return versions.find(call(Empty(), timeout=limit, wait_for_ready=True).version)
        except grpc.RpcError:
            return None
