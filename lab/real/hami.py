"""HAMi's scheduler and webhook on the test cluster: HAMi's own ones, or the simulated ones.

HAMi's own are a kube-scheduler with HAMi's program as its extender, and the webhook of that
program. They are processes of this machine instead of the two containers of a pod, because the
cluster has no network of Services. Source: Project-HAMi/HAMi v2.10.0 (4707fb02),
charts/hami/templates/scheduler.
"""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator import proxies, stages
from gpu_cluster_lab.simulator.controller import hami, hami_scheduler
from gpu_cluster_lab.simulator.ports import free_ports
from gpu_rules.kube.gpu_resources import GPU, HAMI_CORES, HAMI_MEMORY, HAMI_PERCENTAGE
from lab.real.hami_plugin import SPLIT, FakePlugin
from lab.real.image import IMAGE
from lab.real.lab import GPUS, Lab
from lab.real.node import RealError

Json = dict[str, Any]
NAMESPACE: Final = "default"
WEBHOOK: Final = "hami-webhook"
DEVICES: Final = "hami-scheduler-device"
EXCLUSIONS: Final = "hami-device-plugin"
LIMIT: Final = 120.0
POLICIES: Final = ("--node-scheduler-policy=binpack", "--gpu-scheduler-policy=spread")
"""Flags of HAMi's scheduler with the defaults of its chart."""
OFFERED: Final = (GPUS * SPLIT, GPUS * SPLIT)
"""Capacity and allocatable amount of a node whose GPUs HAMi's plugin advertises."""
_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"


def device_configuration() -> str:
    """Return the section `nvidia` of HAMi's device configuration, with the chart's defaults."""
    nvidia = {
        "resourceCountName": GPU,
        "resourceMemoryName": HAMI_MEMORY,
        "resourceMemoryPercentageName": HAMI_PERCENTAGE,
        "resourceCoreName": HAMI_CORES,
        "resourcePriorityName": "nvidia.com/priority",
        "overwriteEnv": False,
        "defaultMemory": 0,
        "defaultCores": 0,
        "defaultGPUNum": 1,
        "memoryFactor": 1,
        "deviceSplitCount": SPLIT,
        "deviceMemoryScaling": 1,
        "deviceCoreScaling": 1,
        "gpuCorePolicy": "default",
        "libCudaLogLevel": 1,
        "runtimeClassName": "",
    }
    return yaml.safe_dump({"nvidia": nvidia})


@contextlib.contextmanager
def simulated(lab: Lab, node: str, other: str) -> Iterator[None]:
    """Let the simulated HAMi decide about pods, and advertise the GPUs of a simulated node.

    Args:
        lab: The running test cluster.
        node: Simulated node whose GPUs HAMi's plugin advertises.
        other: Simulated node on which HAMi's scheduler runs.
    """
    for name, data in (
        (DEVICES, {"device-config.yaml": device_configuration()}),
        (EXCLUSIONS, {"config.json": "{}"}),
    ):
        labels = {stages.HAMI_KEY: "hami-scheduler"}
        body = {"metadata": {"name": name, "labels": labels}, "data": data}
        lab.request("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", body)
    volumes = [
        {"name": "device-config", "configMap": {"name": DEVICES}},
        {"name": "deviceconfig", "configMap": {"name": EXCLUSIONS}},
    ]
    plugin = _pod(stages.HAMI, node, ["nvidia-device-plugin"], volumes=volumes)
    scheduler = _pod("hami-scheduler", other, ["scheduler", *POLICIES])
    webhook = f"{hami_scheduler.CONFIGURATIONS}/{hami_scheduler.WEBHOOK}"
    for pod in (plugin, scheduler):
        lab.request("POST", _PODS, pod)
    try:
        lab.wait_offered(node, GPU, OFFERED)
        lab.until("simulated webhook", partial(lab.exists, webhook), bool)
        yield
    finally:
        for pod in (plugin, scheduler):
            path = f"{_PODS}/{pod['metadata']['name']}"
            lab.request("DELETE", path, gracePeriodSeconds="0")
        lab.until("simulated webhook", partial(lab.exists, webhook), lambda exists: not exists)


def _pod(component: str, node: str, command: list[str], **spec: Any) -> Json:
    container = {"name": "main", "image": IMAGE, "command": command}
    labels = {stages.HAMI_KEY: component, hami.IGNORED: "ignore"}
    return {
        "metadata": {"name": component, "labels": labels},
        "spec": {"nodeName": node, "containers": [container], **spec},
    }


@contextlib.contextmanager
def real(lab: Lab, node: str, extender: Path, folder: Path) -> Iterator[None]:
    """Let HAMi's own scheduler and webhook decide about pods of a real node.

    A fake of HAMi's device plugin advertises the node's GPUs.

    Args:
        lab: The running test cluster.
        node: Real node whose GPUs the fake advertises.
        extender: HAMi's program `scheduler`.
        folder: Folder for files and logs.
    """
    served, metrics = free_ports(2)
    with contextlib.ExitStack() as stack:
        plugin = FakePlugin(lab, node, lab.nodes[node].work / "kubelet" / "device-plugins")
        stack.callback(plugin.stop)
        plugin.start()
        lab.wait_offered(node, GPU, OFFERED)
        stack.enter_context(_extender(lab, extender, folder, served, metrics))
        log = folder / "extender.log"
        lab.until(f"HAMi's scheduler: {node}", partial(_registered, metrics, node, log), bool)
        stack.enter_context(_kube_scheduler(lab, folder, served))
        stack.enter_context(_webhook(lab, served))
        yield


@contextlib.contextmanager
def _process(
    command: list[str], log: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    # setpriv kills the process when this process ends for any reason.
    lives = ["setpriv", "--pdeathsig", "KILL"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*lives, *command],
            env={**proxies.without(os.environ), **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(LIMIT)


@contextlib.contextmanager
def _extender(lab: Lab, program: Path, folder: Path, port: int, metrics: int) -> Iterator[None]:
    access, configuration = lab.plane.access(), folder / "device-config.yaml"
    configuration.write_text(device_configuration())
    command = [
        str(program),
        f"--http_bind=127.0.0.1:{port}",
        f"--cert_file={access.certificate}",
        f"--key_file={access.key}",
        f"--scheduler-name={hami.SCHEDULER}",
        f"--metrics-bind-address=127.0.0.1:{metrics}",
        *POLICIES,
        "--force-overwrite-default-scheduler=true",
        f"--device-config-file={configuration}",
        "--leader-elect=false",
    ]
    environment = {
        "KUBECONFIG": str(lab.plane.kubeconfig),
        "POD_NAME": "hami-scheduler",
        "POD_NAMESPACE": NAMESPACE,
    }
    with _process(command, folder / "extender.log", environment):
        yield


def _registered(metrics: int, node: str, log: Path) -> bool:
    """Return whether HAMi's scheduler knows the GPUs of a node, which its metrics list."""
    try:
        answer = httpx.get(f"http://127.0.0.1:{metrics}/metrics", timeout=10, trust_env=False)
    except httpx.HTTPError as error:
        time.sleep(1)
        text = log.read_text(errors="replace")
        if "fatal" in text.lower():
            raise RealError(
                f"HAMi's scheduler: {error}; wanted: its metrics; cure: see its last lines\n"
                + "\n".join(text.splitlines()[-12:])
            ) from error
        return False
    listed = f'node="{node}"'
    return any(
        each.startswith("hami_gpu_memory_limit") and listed in each
        for each in answer.text.splitlines()
    )


@contextlib.contextmanager
def _kube_scheduler(lab: Lab, folder: Path, port: int) -> Iterator[None]:
    """Run a kube-scheduler with the configuration of HAMi's chart (configmap.yaml)."""
    names = (GPU, HAMI_MEMORY, HAMI_CORES, HAMI_PERCENTAGE, "nvidia.com/priority")
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(lab.plane.kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": hami.SCHEDULER}],
        "extenders": [
            {
                "urlPrefix": f"https://127.0.0.1:{port}",
                "enableHTTPS": True,
                "tlsConfig": {"insecure": True},
                "filterVerb": "filter",
                "bindVerb": "bind",
                "nodeCacheCapable": True,
                "weight": 1,
                "httpTimeout": "30s",
                "managedResources": [{"name": name, "ignoredByScheduler": True} for name in names],
            }
        ],
    }
    path = folder / "kube-scheduler.yaml"
    path.write_text(yaml.safe_dump(configuration))
    program = toolchain.ensure("kube-scheduler")["kube-scheduler"].path
    command = [str(program), f"--config={path}", "--secure-port=0"]
    with _process(command, folder / "kube-scheduler.log", {}):
        yield


@contextlib.contextmanager
def _webhook(lab: Lab, port: int) -> Iterator[None]:
    """Register HAMi's webhook as its chart does (webhook.yaml), at an address of this machine.

    The chart's failurePolicy is Ignore; here a webhook that fails must be seen.
    """
    selector = {
        "matchExpressions": [{"key": hami.IGNORED, "operator": "NotIn", "values": ["ignore"]}]
    }
    authority = base64.b64encode(lab.plane.access().ca.read_bytes()).decode()
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
        "scope": "*",
    }
    webhook = {
        "name": "vgpu.hami.io",
        "admissionReviewVersions": ["v1beta1"],
        "clientConfig": {"url": f"https://127.0.0.1:{port}/webhook", "caBundle": authority},
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": selector,
        "objectSelector": selector,
        "reinvocationPolicy": "Never",
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": 10,
    }
    body = {"metadata": {"name": WEBHOOK}, "webhooks": [webhook]}
    lab.request("POST", hami_scheduler.CONFIGURATIONS, body)
    try:
        yield
    finally:
        lab.request("DELETE", f"{hami_scheduler.CONFIGURATIONS}/{WEBHOOK}")
