"""`gpu-cluster why` names the cause that a real kubelet, scheduler or controller reports for a pod.

Each pod is created on a real and on a simulated node. The simulated node may say nothing, but must
not name another cause than the real one. The control plane, kubelet, containerd and device plugin
are real; the plugin runs on a mock of NVML.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from gpu_cluster.commands.output import Answer
from gpu_cluster.commands.why import found
from gpu_cluster.kubernetes.api import connect
from gpu_cluster.nodes.causes import read
from gpu_cluster.nodes.causes.cause import Kind
from gpu_cluster_lab.simulator import set_fault
from gpu_cluster_lab.simulator.faults import RUNTIME_NOT_CONFIGURED
from gpu_cluster_lab.simulator.marks import GPU
from gpu_rules.faults import FaultError
from lab.real import build, judge, objects
from lab.real import lab as real
from lab.real.behaviours import restart_plugin
from lab.real.image import IMAGE
from lab.real.lab import GPUS, REAL, SIMULATED, Lab
from lab.real.node import Node

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(bool(build.missing()), reason=f"make test-real {build.missing()}"),
]

Json = dict[str, Any]
SPACE, QUOTED = "default", "quoted"
LIMIT = 240.0
"""Seconds for a kubelet on a busy machine to report a cause."""
UNUSED = ("nfd", "operator")
LAB_LIMIT = 3600.0
"""Seconds to wait for other tests on these nodes, which another test process may run."""
NODES = (REAL[0], SIMULATED[0])
HANDLER, DRIVER, HIGH = "absent", "absent.example.com", "higher"
HELD = "example.com/held"
"""Finalizer that keeps a pod that ended, so that its status can be read."""
PODS = f"/api/v1/namespaces/{SPACE}/pods"


def pod(name: str, *command: str, **spec: Any) -> Json:
    """Return a pod with one container; `container` has more fields of the container."""
    more = spec.pop("container", {})
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": list(command or ("/usr/bin/probe", "hold")),
        **more,
    }
    common = {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1}
    return {"metadata": {"name": name}, "spec": {**common, "containers": [container], **spec}}


def mounting(source: Json) -> Json:
    """Return a pod with one volume that its container mounts."""
    mount = {"volumeMounts": [{"name": "files", "mountPath": "/files"}]}
    return pod("", container=mount, volumes=[{"name": "files", **source}])


def asking(number: int, **spec: Any) -> Json:
    return pod("", container={"resources": {"limits": {GPU: str(number)}}}, **spec)


def pulling(image: str) -> Json:
    return pod("", container={"image": image, "imagePullPolicy": "Always"})


def variable(source: Json) -> Json:
    entry = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"key": "token", **source}}}
    return pod("", container={"env": [entry]})


def shell(text: str, **more: Any) -> Json:
    return pod("", "/usr/bin/sh", "-c", text, **more)


def probed(name: str, **limits: int) -> Json:
    probe = {"exec": {"command": ["/usr/bin/sh", "-c", "echo no answer; exit 1"]}}
    return pod("", container={name: {**probe, "periodSeconds": 1, **limits}})


def claiming(**source: str) -> Json:
    claims = [{"name": "device", **source}]
    return pod("", container={"resources": {"claims": [{"name": "device"}]}}, resourceClaims=claims)


@dataclass(frozen=True)
class Case:
    """A pod that does not run.

    Attributes:
        pod: The pod; its name and its node are filled in.
        kind: Kind of the true cause.
        says: Pattern that the text of the cause matches.
        bound: Whether the pod is bound to the node without the scheduler.
    """

    pod: Json
    kind: Kind
    says: str
    bound: bool = False


CASES = {
    "runtime": Case(
        pod("", runtimeClassName=HANDLER), Kind.SANDBOX, f'no runtime for "{HANDLER}" is configured'
    ),
    "configmap": Case(
        mounting({"configMap": {"name": "not-there"}}), Kind.MOUNT, 'configmap "not-there" not'
    ),
    "secret": Case(
        mounting({"secret": {"secretName": "not-there"}}), Kind.MOUNT, 'secret "not-there" not'
    ),
    "hostpath": Case(
        mounting({"hostPath": {"path": "/not-there", "type": "Directory"}}),
        Kind.MOUNT,
        "hostPath type check failed: /not-there is not a directory",
    ),
    "volume": Case(
        mounting({"persistentVolumeClaim": {"claimName": "not-there"}}),
        Kind.MOUNT,
        'persistentvolumeclaim "not-there" not found',
    ),
    "image": Case(pulling("127.0.0.1:9/none:1"), Kind.IMAGE, "connection refused"),
    "image-name": Case(pulling("Not/An:Image"), Kind.IMAGE, "InvalidImageName"),
    "image-never": Case(
        pod("", container={"image": "localhost/none:1"}), Kind.IMAGE, "ErrImageNeverPull"
    ),
    "variable": Case(
        variable({"name": "not-there"}), Kind.CONTAINER, 'secret "not-there" not found'
    ),
    "root": Case(
        pod("", securityContext={"runAsNonRoot": True}), Kind.CONTAINER, "image will run as root"
    ),
    "program": Case(pod("", "/not-there"), Kind.CRASH, "/not-there.*no such file"),
    "crash": Case(
        shell("echo the model is missing; exit 3"),
        Kind.CRASH,
        r"again and again \(exit code 3.* its last line: the model is missing",
    ),
    "memory": Case(
        shell(
            "x=12345678; while :; do x=$x$x; done",
            container={"resources": {"limits": {"memory": "32Mi"}}},
        ),
        Kind.CRASH,
        "OOMKilled",
    ),
    "init": Case(
        pod(
            "",
            initContainers=[
                {
                    "name": "first",
                    "image": IMAGE,
                    "imagePullPolicy": "Never",
                    "command": ["/usr/bin/sh", "-c", "echo no driver; exit 4"],
                }
            ],
        ),
        Kind.CRASH,
        r"container first ends again and again \(exit code 4.*no driver",
    ),
    "readiness": Case(probed("readinessProbe"), Kind.PROBE, "Readiness probe failed.*no answer"),
    "startup": Case(
        probed("startupProbe", failureThreshold=2), Kind.PROBE, "Startup probe failed.*no answer"
    ),
    "liveness": Case(
        probed("livenessProbe", failureThreshold=1), Kind.PROBE, "Liveness probe failed.*no answer"
    ),
    "too-many": Case(
        asking(GPUS + 1),
        Kind.ADMISSION,
        "UnexpectedAdmissionError.*Requested: 9, Available: 8",
        bound=True,
    ),
    "elsewhere": Case(
        pod("", nodeSelector={"not": "here"}), Kind.ADMISSION, "NodeAffinity", bound=True
    ),
    "scheduling": Case(
        asking(GPUS + 1), Kind.SCHEDULING, f"Insufficient {GPU}.*no node has more than 8"
    ),
    "selector": Case(
        pod("", nodeSelector={"not": "here"}), Kind.AFFINITY, "didn't match Pod's node affinity"
    ),
    "late": Case(
        pod("", runtimeClassName=HANDLER, activeDeadlineSeconds=5),
        Kind.DEADLINE,
        "DeadlineExceeded",
    ),
    "claim": Case(
        claiming(resourceClaimTemplateName=DRIVER),
        Kind.CLAIM,
        f"DRA driver {DRIVER} is not registered",
    ),
    "no-claim": Case(
        claiming(resourceClaimTemplateName="not-there"),
        Kind.CLAIM,
        "not-there.*its claim can't be created",
    ),
}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with real.running(LAB_LIMIT, UNUSED) as running:
        running.request("POST", f"/api/v1/namespaces/{SPACE}/configmaps", objects.configurations())
        surroundings(running)
        judge.use(running, "default")
        running.wait_offered(REAL[0], GPU, (GPUS, GPUS))
        for name, case in CASES.items():
            for node in NODES:
                running.create(placed(name, node, case))
        yield running


def surroundings(lab: Lab) -> None:
    """Create the objects to which the pods refer."""
    node = "/apis/node.k8s.io/v1/runtimeclasses"
    lab.request("POST", node, {"metadata": {"name": HANDLER}, "handler": HANDLER})
    priorities = "/apis/scheduling.k8s.io/v1/priorityclasses"
    lab.request("POST", priorities, {"metadata": {"name": HIGH}, "value": 1000})

    devices = "/apis/resource.k8s.io/v1"
    request = {"name": "one", "exactly": {"deviceClassName": DRIVER}}
    lab.request("POST", f"{devices}/deviceclasses", {"metadata": {"name": DRIVER}})
    template = {
        "metadata": {"name": DRIVER},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    lab.request("POST", f"{devices}/namespaces/{SPACE}/resourceclaimtemplates", template)
    for node in NODES:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": [{"name": "one"}]}
        sliced = {"metadata": {"name": f"{node}-{DRIVER}"}, "spec": spec}
        lab.request("POST", f"{devices}/resourceslices", sliced)


def placed(name: str, node: str, case: Case) -> Json:
    """Return the pod of a case for a node."""
    spec = dict(case.pod["spec"])
    if case.bound:
        spec["nodeName"] = node
    elif "nodeSelector" not in spec:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {"metadata": {"name": f"{name}-{node}"}, "spec": spec}


def why(lab: Lab, name: str, namespace: str = SPACE) -> Answer:
    """Return what `gpu-cluster why` says about a pod."""

    async def ask() -> Answer:
        answer: Answer = {}
        async with connect(lab.plane.context) as client:
            await found(client, namespace, name, answer)
        return answer

    return asyncio.run(ask())


def waits(lab: Lab, name: str) -> str:
    """Return what a wait of a run says about a pod; it reads the pod's events and logs only."""
    made = lab.pod(name)

    async def ask() -> str:
        async with connect(lab.plane.context) as client:
            return "\n".join(await read.lines(client, [made]))

    return asyncio.run(ask())


@pytest.fixture(autouse=True)
def kubeconfig(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(lab.plane.kubeconfig))


def names(kind: Kind, says: str) -> Callable[[Answer], bool]:
    """Return a function that checks whether an answer names a cause."""

    def check(answer: Answer) -> bool:
        return answer["kind"] == kind and re.search(says, answer["cause"]) is not None

    return check


def counted(name: str) -> Any:
    """Return the name of a cause as a parameter that the summary line counts."""
    marks = [pytest.mark.clusters("kubelet", name), pytest.mark.advice("real", name)]
    return pytest.param(name, marks=marks)


@pytest.mark.promise("`gpu-cluster why` names the cause that a real kubelet reports for a pod.")
@pytest.mark.parametrize("name", [counted(name) for name in CASES])
def test_the_cause_of_a_real_kubelet_is_named(lab: Lab, name: str) -> None:
    case, (node, simulated) = CASES[name], NODES
    lab.until(name, lambda: why(lab, f"{name}-{node}"), names(case.kind, case.says), LIMIT)
    spoken = partial(waits, lab, f"{name}-{node}")
    lab.until(
        f"wait for {name}", spoken, lambda said: re.search(case.says, said) is not None, LIMIT
    )
    other = why(lab, f"{name}-{simulated}")
    assert other["kind"] in ("", Kind.WAIT, case.kind), other


def held(lab: Lab, name: str, made: Json, node: str) -> str:
    """Create a pod that stays after its end; wait until it runs, and return its name."""
    full = f"{name}-{node}"
    spec = {**made["spec"], "nodeSelector": {"kubernetes.io/hostname": node}}
    lab.create({"metadata": {"name": full, "finalizers": [HELD]}, "spec": spec})
    lab.wait_phase(full, "Running")
    return full


def released(lab: Lab, name: str) -> None:
    """Delete a pod that stays after its end."""
    lab.request("PATCH", f"{PODS}/{name}", {"metadata": {"finalizers": None}})
    lab.delete(name)


@pytest.mark.clusters("kubelet", "eviction")
@pytest.mark.advice("real", "eviction")
def test_an_eviction_is_named(lab: Lab) -> None:
    for node in NODES:
        name = held(lab, "evicted", pod(""), node)
        lab.request("POST", f"{PODS}/{name}/eviction", {"metadata": {"name": name}})
        check = names(Kind.EVICTION, "EvictionByEvictionAPI")
        lab.until(name, partial(why, lab, name), check, LIMIT)
        released(lab, name)


@pytest.mark.clusters("kubelet", "preemption by the scheduler")
@pytest.mark.advice("real", "preemption by the scheduler")
def test_a_preemption_by_the_scheduler_is_named(lab: Lab) -> None:
    for node in (REAL[0], SIMULATED[1]):
        name = held(lab, "lower", asking(GPUS), node)
        chosen = {"kubernetes.io/hostname": node}
        higher = asking(GPUS, priorityClassName=HIGH, nodeSelector=chosen)
        lab.create({**higher, "metadata": {"name": f"higher-{node}"}})
        check = names(Kind.PREEMPTION, "PreemptionByScheduler")
        lab.until(name, partial(why, lab, name), check, LIMIT)
        released(lab, name)
        lab.delete(f"higher-{node}")


@pytest.mark.clusters("kubelet", "preemption by the kubelet")
@pytest.mark.advice("real", "preemption by the kubelet")
def test_a_preemption_by_the_kubelet_is_named(lab: Lab) -> None:
    total = int(lab.node(REAL[0])["status"]["allocatable"]["cpu"])
    resources = {"resources": {"requests": {"cpu": f"{total * 1000 - 500}m"}}}
    lab.create({**pod("", container=resources, nodeName=REAL[0]), "metadata": {"name": "small"}})
    lab.wait_phase("small", "Running")
    critical = pod(
        "", container=resources, nodeName=REAL[0], priorityClassName="system-node-critical"
    )
    lab.create({**critical, "metadata": {"name": "critical"}})
    check = names(Kind.PREEMPTION, "critical pod")
    lab.until("small", partial(why, lab, "small"), check, LIMIT)
    for name in ("small", "critical"):
        lab.delete(name)


@pytest.mark.clusters("kubelet", "quota")
@pytest.mark.advice("real", "quota")
def test_a_quota_that_refuses_a_pod_is_named(lab: Lab) -> None:
    lab.request("POST", "/api/v1/namespaces", {"metadata": {"name": QUOTED}})
    hard = {"metadata": {"name": "gpus"}, "spec": {"hard": {f"requests.{GPU}": "0"}}}
    lab.request("POST", f"/api/v1/namespaces/{QUOTED}/resourcequotas", hard)
    template = {"spec": {**asking(1)["spec"], "restartPolicy": "Never"}}
    job = {"metadata": {"name": "train"}, "spec": {"template": template}}

    def said() -> Answer:
        try:
            return why(lab, "train", QUOTED)
        except FaultError:
            return {"kind": ""}

    lab.request("POST", f"/apis/batch/v1/namespaces/{QUOTED}/jobs", job)
    check = names(
        Kind.QUOTA, r"Job train can't create it, reported by job-controller: .*exceeded quota: gpus"
    )
    lab.until("train", said, check, LIMIT)


@pytest.mark.clusters("kubelet", "node")
@pytest.mark.advice("real", "node")
def test_a_node_that_is_not_ready_is_named(lab: Lab) -> None:
    """The kubelet of a node whose container engine is down starts no pod.

    It may report that no sandbox can be created; that the node is not ready explains more.
    """
    node = lab.nodes[REAL[1]]
    node.run("systemctl stop containerd")
    try:
        lab.create({**pod("", nodeName=node.name), "metadata": {"name": "waiting"}})
        check = names(Kind.NODE, f"its node {node.name} is not ready: .*runtime")
        lab.until("waiting", partial(why, lab, "waiting"), check, LIMIT)
    finally:
        node.run("systemctl start containerd")
    lab.wait_phase("waiting", "Running")


@pytest.mark.clusters("kubelet", "memory pressure")
@pytest.mark.advice("real", "memory pressure")
def test_an_eviction_by_the_kubelet_is_named(lab: Lab) -> None:
    """A kubelet that starts with too little memory ends the pods that it has started before.

    It either evicts such a pod, or rejects it if it sees the lack of memory before the pod.
    """
    node = lab.nodes[REAL[1]]
    name = held(lab, "pressed", pod(""), node.name)
    limits_memory(node, 0, 99)
    try:
        says = r"evicted by the kubelet: .*(low on resource: memory|\[MemoryPressure\])"
        lab.until(name, lambda: why(lab, name), names(Kind.EVICTION, says), LIMIT)
    finally:
        limits_memory(node, 99, 0)
    released(lab, name)


def limits_memory(node: Node, old: int, new: int) -> None:
    """Start the kubelet again with another threshold for evictions, in percent of the memory."""
    node.stop_kubelet()
    entry = "memory.available: {}%"
    files = "/etc/kubernetes/kubelet.yaml"
    node.run(f"sed -i 's/{entry.format(old)}/{entry.format(new)}/' {files}")
    node.start_kubelet()


def without_sandbox(lab: Lab, name: str, node: str) -> Json:
    """Return what a kubelet reports about a pod without a sandbox, and the answer of `why`."""
    shown = lab.pod(name)
    selector = f"involvedObject.uid={shown['metadata']['uid']},reason=FailedCreatePodSandBox"
    path = f"/api/v1/namespaces/{SPACE}/events"
    event, *_ = lab.request("GET", path, fieldSelector=selector)["items"] or [{}]
    runtime = re.search(r'no runtime for "[a-z]+" is configured$', event.get("message", ""))
    answer = why(lab, name)
    return {
        "phase": shown["status"].get("phase"),
        "message": shown["status"].get("message"),
        "states": [each["state"] for each in shown["status"].get("containerStatuses") or []],
        "type": event.get("type"),
        "source": {key: text.replace(node, "") for key, text in event.get("source", {}).items()},
        "reporter": event.get("reportingComponent"),
        "object": (event.get("involvedObject") or {}).get("kind"),
        "runtime": runtime is not None,
        "kind": answer["kind"],
        "names": re.search('no runtime for "[a-z]+"', str(answer["cause"])) is not None,
    }


def test_a_fault_of_the_runtime_is_that_of_a_real_kubelet(lab: Lab) -> None:
    """A simulated node reports a runtime that containerd lacks as a real kubelet does."""
    (real_node, _), simulated = NODES, SIMULATED[1]
    set_fault(lab.plane.name, simulated, RUNTIME_NOT_CONFIGURED)
    try:
        restart_plugin(lab, simulated)
        lab.until(
            simulated,
            lambda: lab.pods(simulated, **objects.LABELS),
            lambda pods: [each["status"].get("phase") for each in pods] == ["Pending"],
            LIMIT,
        )
        (plugin,) = lab.pods(simulated, **objects.LABELS)
        real_pod = f"runtime-{real_node}"
        wanted = lab.until(
            real_pod,
            partial(without_sandbox, lab, real_pod, real_node),
            lambda seen: bool(seen["runtime"]),
            LIMIT,
        )
        assert wanted["kind"] == Kind.SANDBOX
        same = partial(without_sandbox, lab, plugin["metadata"]["name"], simulated)
        lab.until(simulated, same, lambda seen: bool(seen == wanted), LIMIT)
    finally:
        set_fault(lab.plane.name, simulated)
    lab.wait_offered(simulated, GPU, (GPUS, GPUS))
