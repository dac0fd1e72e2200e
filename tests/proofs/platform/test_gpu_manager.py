"""gpu-manager: Helm renders its chart, and the real kube-scheduler calls its extender."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.platforms.gpu_manager import values as chart
from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator.http_servers import QuietHandler, running
from gpu_rules.kube.gpu_resources import VCUDA_CORE, VCUDA_MEMORY
from tests.components.platforms.gpu_manager.pods import pod
from tests.proofs.e2e.project import Project
from tests.proofs.platform import ways

Json = dict[str, Any]

LIMIT = 60


class Extender(ThreadingHTTPServer):
    """HTTP server that responds as the extender gpu-quota-admission does, and records requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        super().__init__(("127.0.0.1", 0), _Answer)


class _Answer(QuietHandler):
    server: Extender

    def do_POST(self) -> None:
        arguments = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, arguments["Pod"]["metadata"]["name"]))
        answer = json.dumps({"Nodes": arguments["Nodes"], "Error": ""}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@pytest.fixture
def extender() -> Iterator[Extender]:
    server = Extender()
    with running(server):
        yield server


@pytest.mark.full
def test_the_real_scheduler_asks_the_extender_for_shares_and_for_nothing_else(
    project: Project, extender: Extender, tmp_path: Path
) -> None:
    settings = chart.scheduler_configuration("127.0.0.1")
    settings["clientConnection"]["kubeconfig"] = str(project.kubeconfig)
    settings["leaderElection"] = {"leaderElect": False}
    settings["profiles"] = [{"schedulerName": "with-extender"}]
    url = settings["extenders"][0]["urlPrefix"]
    assert url == "http://127.0.0.1:3456/scheduler"
    settings["extenders"][0]["urlPrefix"] = url.replace("3456", str(extender.server_port))
    file = tmp_path / "scheduler.yaml"
    file.write_text(yaml.safe_dump(settings))
    project.write(ways.declared(project.stack, "gpu-manager"))
    # `up` deploys gpu-manager, which advertises the GPU cards that the scheduler needs.
    project.up()
    tool = toolchain.ensure("kube-scheduler")["kube-scheduler"]
    log = (tmp_path / "scheduler.log").open("w")
    process = subprocess.Popen(
        [tool.path, f"--config={file}", "--secure-port=0"], stdout=log, stderr=log
    )
    names = ("share", "plain")
    try:
        project.request(
            "POST",
            "namespaces/default/pods",
            body=pod("share", {VCUDA_CORE: "30", VCUDA_MEMORY: "20"}),
        )
        project.request("POST", "namespaces/default/pods", body=pod("plain", {"cpu": "1"}))
        deadline = time.monotonic() + LIMIT
        placed: dict[str, str] = {}
        while len(placed) < len(names) and time.monotonic() < deadline:
            assert process.poll() is None, (tmp_path / "scheduler.log").read_text()[-2000:]
            for name in names:
                spec = project.request("GET", f"namespaces/default/pods/{name}")["spec"]
                if "nodeName" in spec:
                    placed[name] = spec["nodeName"]
        assert set(placed) == set(names), (tmp_path / "scheduler.log").read_text()[-2000:]
        assert extender.asked == [("/scheduler/predicates", "share")]
    finally:
        process.terminate()
        process.wait(LIMIT)
        log.close()
        for name in names:
            project.request(
                "DELETE", f"namespaces/default/pods/{name}", body={"gracePeriodSeconds": 0}
            )
        done = project.command("destroy")
    assert done.returncode == 0, done.stdout
