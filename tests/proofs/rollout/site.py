"""Test site for rollouts: hosts over real SSH, and an embedded cluster with their nodes.

A reboot is simulated: the host's namespaces end and start again. Kwok simulates the nodes; API
server, evictions and PodDisruptionBudgets are real.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.rollout import MigLayoutsRequest, RolloutRequest
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.observed.inspect import observe_hosts
from gpu_cluster.hosts.phases import prepare_script, runtime_script
from gpu_cluster.inspection.observe import nodes_of
from gpu_cluster.kubernetes.api import ClusterError, connect
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes import drain
from gpu_cluster.nodes.inspect import CORDONED
from gpu_cluster.requests import write
from gpu_cluster.rollout import rollout
from gpu_cluster.rollout.component import RolloutArgs, rollout_request
from gpu_cluster.rollout.operands import TAINT
from gpu_cluster.rollout.pending import changes
from gpu_cluster.rollout.plan import Plan, plan
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster_lab import simulator
from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.hosts.model import cluster_dir
from tests.desired_host import desired_host
from tests.proofs.hosts.machine import Running, free_port
from tests.simulated import simulate

ROOT = Path(__file__).resolve().parents[3]
Json = dict[str, Any]
REBOOT = "run/gpu-cluster/reboot-required"


class Site:
    """Simulated hosts with an applied configuration, which rollouts then change."""

    def __init__(self, name: str, roles: dict[str, str]) -> None:
        self.begun = self.ended = self.unconsented = 0
        self.name = name
        path, public = simulated.client_key(name)
        self.key = path.read_text()
        workers = [host for host, role in roles.items() if role == "gpu-worker"]
        self.document: Json = {
            "version": "v1",
            "kubernetes": {"context": f"gpu-cluster-{name}"},
            "platform": "device-plugin",
            "pools": [{"name": "a100", "nodes": workers, "gpusPerNode": 8}],
            "hosts": [
                {
                    "name": host,
                    "role": role,
                    "address": "127.0.0.1",
                    "port": free_port(),
                    "hostKey": simulated.host_public_key(host),
                }
                for host, role in roles.items()
            ],
            "reboot": {"when": "required", "timeoutSeconds": 30},
            "rollout": {"drainTimeoutSeconds": 30},
        }
        self.declared = load(self.document)
        simulated.up(name, self.declared.hosts, public, simulated.HostSettings(mode="namespaces"))
        self.kubeconfig = simulate(name, self.declared).kubeconfig
        os.environ["KUBECONFIG"] = str(self.kubeconfig)
        self.hosts = {
            host.name: Running(name, host, self.key)  # type: ignore[arg-type]
            for host in self.declared.hosts
        }
        self.apply(self.declared)

    def close(self) -> None:
        simulated.down(self.name)
        simulator.down(self.name)
        shutil.rmtree(cluster_dir(self.name), ignore_errors=True)

    def apply(self, cluster: Cluster) -> None:
        """Run the scripts of all phases on the hosts, as their Command resources do."""
        for host in cluster.hosts:
            machine = self.hosts[host.name]
            scripts = [prepare_script(desired_host(cluster, host))]
            if host.role.has_gpus:
                scripts.append(runtime_script(desired_host(cluster, host)))
            for script in scripts:
                result = machine.run("sh -s -- apply", script)
                assert result.status == 0, result

    def facts(self) -> dict[str, HostFacts]:
        return asyncio.run(observe_hosts(resolve(self.declared, "t").hosts, self.key))

    def plan(self, **changed: Any) -> tuple[Cluster, Plan]:
        """Return a changed configuration, and the rollout plan that an inspection makes for it."""
        cluster = load({**self.document, **changed})
        cordoned = frozenset(name for name in self.hosts if CORDONED in self.annotations(name))
        desired = resolve(cluster, "t")
        found = changes(desired.hosts, self.facts(), cordoned)
        seen = nodes_of(desired.rollout)([change.host.node for change in found])
        return cluster, plan(found, seen.views, cluster.rollout.max_unavailable)

    def input(self, **changed: Any) -> RolloutRequest:
        """Return the request that the program `rollout` reads as its input."""
        cluster, made = self.plan(**changed)
        desired = resolve(cluster, "t")
        args = RolloutArgs(
            rollout=desired.rollout,
            has_hosts=True,
            operands=desired.operands,
            pools=desired.validation.pools,
            layouts=desired.layouts,
            private_key=self.key,
            plan=made,
        )
        request = rollout_request(args, self.key)
        for host in request.hosts:
            for phase in filter(None, (host.prepare, host.runtime)):
                self.hosts[host.target.name].copy_steps(phase.script)
        return request

    def roll(self, **changed: Any) -> list[str]:
        """Run a rollout, check that it succeeds, and return the changed hosts in order."""
        document = self.input(**changed)
        self.begun += len(document.hosts)
        with self.guarded(document.rollout.consent):
            done = asyncio.run(rollout.roll(document))
        self.ended += len(done["rolled"])
        return list(done["rolled"])

    def fail(self, **changed: Any) -> str:
        """Run a rollout, check that it fails, and return the error message."""
        document = self.input(**changed)
        with self.guarded(document.rollout.consent), pytest.raises(ClusterError) as raised:
            asyncio.run(rollout.roll(document))
        return str(raised.value)

    @contextlib.contextmanager
    def guarded(self, consent: Sequence[str]) -> Iterator[None]:
        """Count pods that are deleted while the context lasts, although they may not be evicted.

        The setting `rollout.evict` allows evictions.
        """
        before = self.losing()
        try:
            yield
        finally:
            after = self.losing()
            gone = (kinds for uid, kinds in before.items() if uid not in after)
            self.unconsented += sum(not kinds <= set(consent) for kinds in gone)

    def losing(self) -> dict[str, set[str]]:
        """Return which values of `rollout.evict` a pod's eviction needs, by the pod's UID."""
        pods = {}
        for pod in self.request("GET", "pods")["items"]:
            kinds = set()
            if any("emptyDir" in volume for volume in pod["spec"].get("volumes") or []):
                kinds.add("empty-dir")
            if not pod["metadata"].get("ownerReferences"):
                kinds.add("unmanaged")
            if kinds:
                pods[pod["metadata"]["uid"]] = kinds
        return pods

    def killed(
        self, document: RolloutRequest | MigLayoutsRequest, line: str, *program: str
    ) -> None:
        """Run the rollout program in a subprocess, and kill it as soon as it prints `line`."""
        with self.guarded(document.rollout.consent):
            self._killed(write(document), line, program or ("rollout", "roll"))

    def _killed(self, request: str, line: str, program: tuple[str, ...]) -> None:
        process = subprocess.Popen(
            ["components/gpu-cluster-program", *program],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stderr is not None
        with process:
            process.stdin.write(request)
            process.stdin.close()
            said = []
            for text in process.stderr:
                said.append(text)
                if line in text:
                    break
            else:
                raise AssertionError(f"never said {line!r}: {said}")
            os.killpg(process.pid, signal.SIGKILL)

    def request(self, method: str, url: str, **options: Any) -> Any:
        async def run() -> Any:
            async with connect(self.document["kubernetes"]["context"]) as client:
                return await client.request(method, url, **options)

        return asyncio.run(run())

    def node(self, name: str) -> Json:
        node: Json = self.request("GET", f"nodes/{name}")
        return node

    def annotations(self, name: str) -> Json:
        annotations: Json = self.node(name)["metadata"].get("annotations", {})
        return annotations

    def is_free(self, name: str) -> bool:
        """Check that a node isn't cordoned and has no annotation or taint of a rollout."""
        node = self.node(name)
        taints = [taint["key"] for taint in node["spec"].get("taints") or []]
        marks = CORDONED in node["metadata"].get("annotations", {}), TAINT["key"] in taints
        return not any(marks) and "unschedulable" not in node["spec"]

    def patch(self, name: str, body: Json) -> None:
        self.request("PATCH", f"nodes/{name}", body=body, content_type=drain.MERGE)

    def applied(self, name: str, text: str) -> bool:
        """Check that a text is among the settings that the host reports as applied."""
        return text in self.facts()[name].disrupts["runtime"]

    def would_lose(self, consent: str, node: str) -> None:
        """Create a pod on a node whose eviction needs the given value of `rollout.evict`.

        Args:
            consent: Value of `rollout.evict`: `empty-dir` for a pod with local files; `unmanaged`
                for a pod without a controller, which no one would create again.
            node: Name of the node.
        """
        if consent == "empty-dir":
            self.workload("local", node, volumes=[{"name": "scratch", "emptyDir": {}}])
            return
        pod = {
            "metadata": {"name": "alone"},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "sample"}]},
        }
        self.request("POST", "namespaces/default/pods", body=pod)

    def workload(self, namespace: str, node: str, **spec: Any) -> None:
        """Create a Deployment with one pod on a node and wait until the pod runs."""
        labels = {"app": namespace}
        with contextlib.suppress(Exception):
            self.request("POST", "namespaces", body={"metadata": {"name": namespace}})
        template = {
            "metadata": {"labels": labels},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": node},
                "containers": [{"name": "c", "image": "sample"}],
                **spec,
            },
        }
        body = {
            "metadata": {"name": "w"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }
        url = f"namespaces/{namespace}/deployments"
        self.request("POST", url, base="/apis/apps", body=body)
        self.running(namespace)

    def pods(self, namespace: str) -> list[str]:
        items = self.request("GET", f"namespaces/{namespace}/pods")["items"]
        return [p["metadata"]["name"] for p in items if p["status"].get("phase") == "Running"]

    def running(self, namespace: str) -> None:
        deadline = time.monotonic() + 60
        while not self.pods(namespace):
            assert time.monotonic() < deadline, f"no pod of {namespace} runs"
            time.sleep(0.2)

    def clear(self, *namespaces: str) -> None:
        """Delete workloads and wait until their pods are gone."""
        for namespace in namespaces:
            url = f"namespaces/{namespace}/deployments/w"
            self.request("DELETE", url, base="/apis/apps")
            deadline = time.monotonic() + 60
            while self.request("GET", f"namespaces/{namespace}/pods")["items"]:
                assert time.monotonic() < deadline
                time.sleep(0.2)

    @contextlib.contextmanager
    def watched(self) -> Iterator[list[frozenset[str]]]:
        """Record continuously, in a thread, which nodes are cordoned at the same time."""
        seen: list[frozenset[str]] = []
        done = threading.Event()

        def look() -> None:
            while not done.wait(0.1):
                nodes = self.request("GET", "nodes")["items"]
                names = (n["metadata"]["name"] for n in nodes if n["spec"].get("unschedulable"))
                seen.append(frozenset(names))

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield seen
        finally:
            done.set()
            thread.join()
