"""B13: memory and processor time of commands that read a cluster, at 5,000 nodes with 150,000 pods.

The cluster is a process that answers lists with pages of made-up nodes of 15 kB and pods of 3.5 kB,
as large as those of clusters that run software. A real API server with so many objects would need
most of this machine's memory, and is no part of what is measured: the memory and the processor time
of the command alone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from gpu_cluster.commands.environment import local_backend
from gpu_cluster.commands.files import copy_project
from gpu_rules.kube.gpu_resources import GPU
from lab.benchmarks.measure import BenchmarkError, exponent, write
from lab.benchmarks.project import OWN

SIZES = (1000, 2500, 5000)
"""Numbers of nodes."""
PODS, GPUS = 30, 8
NODE_BYTES, POD_BYTES = 15_000, 3_500
GOAL, MEMORY_GOAL = 1.05, 300.0
"""Largest growth exponent of processor time, and most megabytes at the largest size."""
COMMANDS = ("status", "who", "support-bundle")
STACK = "sizes"

DISCOVERY = re.compile(r"/api(/v1)?/?|/apis(/[^/]+){0,2}/?")
"""Paths at which an API server lists its groups, or the kinds of a group."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Use:
    """Seconds of processor time and megabytes of memory that a command used."""

    seconds: float
    megabytes: float


def node_text(number: int) -> str:
    """Return a Node as JSON, filled up to `NODE_BYTES` by images."""
    amounts = {"cpu": "128", "memory": "1Ti", "pods": "110", GPU: str(GPUS)}
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    node: Json = {
        "metadata": {"name": f"gpu-{number}", "uid": f"n{number}", "resourceVersion": "1"},
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": conditions,
            "nodeInfo": {
                "kernelVersion": "6.8.0-60-generic",
                "bootID": "b",
                "containerRuntimeVersion": "containerd://2.2.9",
                "kubeletVersion": "v1.34.4",
            },
        },
    }
    left = NODE_BYTES - len(json.dumps(node))
    names = ["x" * 160]
    node["status"]["images"] = [{"names": names, "sizeBytes": 10**9}] * (left // 210)
    return json.dumps(node)


def pod_json(number: int) -> str:
    """Return a Pod as JSON, filled up to `POD_BYTES` by variables; one in thirty holds GPUs."""
    node, index = divmod(number, PODS)
    container: Json = {"name": "main", "image": "registry.example.com/train:v1"}
    if index == 0:
        container["resources"] = {"limits": {GPU: str(GPUS)}, "requests": {GPU: str(GPUS)}}
    pod: Json = {
        "metadata": {
            "name": f"pod-{number}",
            "namespace": f"team-{node % 10}",
            "uid": f"p{number}",
            "creationTimestamp": "2026-11-01T00:00:00Z",
        },
        "spec": {"nodeName": f"gpu-{node + 1}", "containers": [container]},
        "status": {"phase": "Running"},
    }
    left = POD_BYTES - len(json.dumps(pod))
    container["env"] = [{"name": "OPTION", "value": "v" * 30}] * (left // 62)
    return json.dumps(pod)


class Answers(BaseHTTPRequestHandler):
    """Answer the requests of a cluster with `server.nodes` nodes, and no other object."""

    protocol_version = "HTTP/1.1"
    nodes = 0

    def do_GET(self) -> None:
        """Answer a read."""
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        name = url.path.rpartition("/")[2]
        if url.path.startswith("/version"):
            self._send(200, '{"major": "1", "minor": "34", "gitVersion": "v1.34.4"}')
        elif url.path in ("/api/v1/nodes", "/api/v1/pods"):
            total = self.nodes * (1 if name == "nodes" else PODS)
            text = node_text if name == "nodes" else pod_json
            begin = int(query.get("continue", 0))
            end = min(total, begin + int(query.get("limit", total)))
            first = 1 if name == "nodes" else 0
            items = ",".join(text(number + first) for number in range(begin, end))
            more = f'"continue": "{end}"' if end < total else ""
            self._send(200, f'{{"metadata": {{{more}}}, "items": [{items}]}}')
        elif DISCOVERY.fullmatch(url.path):
            self._send(200, '{"groups": [], "resources": []}')
        elif name.endswith("s"):
            self._send(200, '{"metadata": {}, "items": []}')
        else:
            self._send(404, '{"kind": "Status", "reason": "NotFound", "message": "not found"}')

    def do_POST(self) -> None:
        """Refuse a write, also a question about permissions."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._send(403, '{"kind": "Status", "reason": "Forbidden", "message": "read only"}')

    def _send(self, code: int, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""


@contextmanager
def serve_cluster(nodes: int) -> Iterator[int]:
    """Answer as a cluster of this size while the context lasts; yield the port on loopback."""
    handler = type("Sized", (Answers,), {"nodes": nodes})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def kubeconfig(port: int) -> str:
    """Return the kubeconfig of the server at a port."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": STACK,
            "contexts": [{"name": STACK, "context": {"cluster": STACK, "user": STACK}}],
            "clusters": [{"name": STACK, "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": STACK, "user": {"token": "benchmark"}}],
        }
    )


@contextmanager
def make_site() -> Iterator[Path]:
    """Yield a copy of this project, in which stacks of each size are declared."""
    with tempfile.TemporaryDirectory(prefix="b13-") as place:
        folder = Path(place, "project")
        copy_project(folder)
        (folder / "state").mkdir()
        yield folder


def measure_commands(nodes: int, folder: Path) -> dict[str, Use]:
    """Return what each command uses at a number of nodes, of a stack that is not deployed yet."""
    pool = {"name": "a100", "nodes": [f"gpu-[1-{nodes}]"], "gpusPerNode": GPUS}
    document = {
        "version": "v1",
        "kubernetes": {"context": STACK},
        "platform": "device-plugin",
        "pools": [pool],
    }
    text = yaml.safe_dump({"config": {"gpu-cluster:cluster": document}})
    (folder / f"Pulumi.{STACK}.yaml").write_text(text)
    with serve_cluster(nodes) as port:
        (folder / "kubeconfig").write_text(kubeconfig(port))
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(OWN)},
            "STACK": STACK,
            "JSON": "1",
            "KUBECONFIG": str(folder / "kubeconfig"),
            "BUNDLE": str(folder / "bundle.tar.gz"),
            "PULUMI_BACKEND_URL": local_backend(folder / "state"),
            "PULUMI_CONFIG_PASSPHRASE": "of a benchmark",
        }
        return {command: use_of(command, folder, environment) for command in COMMANDS}


def use_of(command: str, folder: Path, environment: dict[str, str]) -> Use:
    """Run a command of this project; return what its process used.

    Raises:
        BenchmarkError: The command could not read the whole cluster.
    """
    output = folder / "output.json"
    with output.open("wb") as file:
        process = subprocess.Popen(
            ["venv/bin/python", "-m", "gpu_cluster.commands", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    text = output.read_text(errors="replace")
    if process.returncode not in (0, 3) or "not inspected" in text:
        raise BenchmarkError(f"{command}: exit code {process.returncode}: {text[-2000:]}")
    return Use(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def run() -> bool:
    """Run benchmark B13 and print its results; return True if all goals are met."""
    with make_site() as folder:
        points = {nodes: measure_commands(nodes, folder) for nodes in SIZES}
    growths, memory = {}, {}
    for command in COMMANDS:
        uses = {nodes: point[command] for nodes, point in points.items()}
        growths[command] = exponent({nodes: use.seconds for nodes, use in uses.items()})
        memory[command] = uses[SIZES[-1]].megabytes
        parts = ", ".join(f"{n}: {u.seconds:.1f} s {u.megabytes:.0f} MB" for n, u in uses.items())
        print(f"{command}: {parts}", flush=True)
    met = max(growths.values()) <= GOAL and max(memory.values()) <= MEMORY_GOAL
    write("B13", {"goal": GOAL, "growths": growths, "memory": memory, "points": points, "met": met})
    figures = ", ".join(
        f"{name} {memory[name]:.0f} MB and nodes^{growth:.2f}" for name, growth in growths.items()
    )
    print(f"B13: at {SIZES[-1] * PODS} pods: {figures} (goals ≤ {MEMORY_GOAL:.0f} MB, ≤ {GOAL})")
    return met
