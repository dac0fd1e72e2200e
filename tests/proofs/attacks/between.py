"""Objects that may have GPUs or not, and faults that rules forbid to one of the two kinds.

Each object is generated from parts whose meaning stands beside them: a part proves GPUs, proves
nothing, or leaves it open. What a rule may find follows from these words alone, and not from the
functions of the rules.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from gpu_rules.kube.gpu_resources import BY_CLASS
from tests.policies.admission.cluster import GPU

Json = dict[str, Any]
Draw = random.Random

WITH, WITHOUT, OPEN = "with", "without", "open"
"""What an object proves: that it has GPUs, that it has none, or neither."""

SPACE, CAPPED, UNNAMED = "between", "between-capped", "between-unnamed"
"""Namespaces whose policies know no caps, caps, and no names of nodes."""
TRUSTING, UNTAINTED = "between-trusting", "between-untainted"
"""Namespaces whose policies know which namespaces are trusted, the second ones of nodes without
taints.
"""
NODE: Final = "gpu-1"
CAP: Final = 8
LISTED: Final = "listed"
"""A name of `otherClaims`."""
TOLERATION: Final = {"key": GPU, "operator": "Exists"}

CLAIMS: Final = {
    **dict.fromkeys(("gpu", "one-gpu", "gpu-and-nic", "devices", "a", "fast", "h100"), True),
    **dict.fromkeys(("nic", "rdma-0", "my-net", "two-nics", "ib", "storage", "cpus", "tpu"), False),
}
"""Names of claims, which prove nothing, by whether such a claim may need GPU nodes."""
RESOURCES: Final = {
    GPU: (WITH, True),
    "nvidia.com/mig-1g.10gb": (WITH, True),
    "amd.com/gpu": (WITH, True),
    f"{BY_CLASS}gpu.nvidia.com": (WITH, True),
    "nvidia.com/GA102GL_A10": (OPEN, True),
    "habana.ai/gaudi": (OPEN, True),
    "nvidia.com/hostdev": (OPEN, False),
    "nvidia.com/rdma_shared": (OPEN, False),
    f"{BY_CLASS}h100": (OPEN, True),
    f"{BY_CLASS}nic.example.com": (WITHOUT, False),
    "rdma/hca": (WITHOUT, False),
    "example.com/dongle": (WITHOUT, False),
}
"""What a resource proves, and whether its pods may tolerate the taint of GPU nodes."""
CLASSES: Final = {
    **dict.fromkeys(("gpu.nvidia.com", "mig.nvidia.com", "h100", "fast", "a.example.com"), True),
    **dict.fromkeys(("nic.example.com", "rdma", "imex.nvidia.com", "dra.net", LISTED), False),
}
"""DeviceClasses by whether they may have GPUs."""
KINDS: Final = {
    "Pod": ("v1", ()),
    "PodTemplate": ("v1", ("template",)),
    "ReplicationController": ("v1", ("spec", "template")),
    "Deployment": ("apps/v1", ("spec", "template")),
    "ReplicaSet": ("apps/v1", ("spec", "template")),
    "StatefulSet": ("apps/v1", ("spec", "template")),
    "DaemonSet": ("apps/v1", ("spec", "template")),
    "Job": ("batch/v1", ("spec", "template")),
    "CronJob": ("batch/v1", ("spec", "jobTemplate", "spec", "template")),
}


@dataclass
class Parts:
    """The parts of a pod, and what they prove.

    Attributes:
        spec: Fields of the pod's spec.
        container: Fields of its container.
        annotations: Annotations of the pod.
        proofs: What each part proves.
        belongs: Whether a part may need GPU nodes, so that the pod tolerates their taint.
    """

    spec: Json = field(default_factory=dict)
    container: Json = field(default_factory=dict)
    annotations: Json = field(default_factory=dict)
    proofs: set[str] = field(default_factory=set)
    belongs: bool = False

    @property
    def proof(self) -> str:
        return next((proof for proof in (WITH, OPEN) if proof in self.proofs), WITHOUT)


@dataclass(frozen=True)
class Case:
    """An object that breaks no mandatory rule, and the same object with a fault.

    Attributes:
        good: The object without a fault.
        bad: The object with the fault.
        rules: Rules of which at least one must find the fault.
        what: The object and the fault in words.
        how: How the fault reaches the API server: by `create`, by `update` of the good object, or
            by adding `ephemeral` containers to it.
    """

    good: Json
    bad: Json
    rules: frozenset[str]
    what: str
    how: str = "create"


def cases(seed: int, count: int) -> Iterator[Case]:
    """Yield cases, the same ones for a seed; one in eight is a claim and not a pod."""
    draw = Draw(seed)
    for number in range(count):
        yield _claim_case(draw, number) if number % 8 == 7 else _pod_case(draw, number)


def _requests(draw: Draw, kind: str) -> Parts:
    """Draw what a pod requests, with empty and null lists and amounts of 0 among it."""
    parts = Parts()
    amounts: Json = {}
    if draw.random() < 0.6:
        for name in draw.sample(list(RESOURCES), k=draw.choice((1, 1, 2))):
            proof, belongs = RESOURCES[name]
            amount = draw.choice(("0", "1", "1", "2"))
            # A DaemonSet must not request GPUs (GPU024).
            if kind == "DaemonSet" and proof == WITH:
                amount = "0"
            amounts[name] = amount
            if amount != "0":
                parts.proofs.add(proof)
                parts.belongs |= belongs
    resources: Json = {
        "limits": {"memory": "1Gi", **amounts},
        "requests": {"cpu": "1", "memory": "1Gi", **amounts},
    }
    claims = draw.choice(("missing", "null", "empty", "some", "some"))
    if claims == "null":
        parts.spec["resourceClaims"] = None
    elif claims != "missing":
        names = draw.sample(list(CLAIMS), k=1) if claims == "some" else []
        names += [LISTED] if claims == "some" and draw.random() < 0.2 else []
        if kind == "DaemonSet":
            names = [name for name in names if not CLAIMS.get(name, False)]
        listed = []
        for index, name in enumerate(names):
            source = draw.choice(("resourceClaimName", "resourceClaimTemplateName"))
            listed.append({"name": f"c{index}", source: name})
            parts.proofs.add(OPEN if name in CLAIMS else WITHOUT)
            parts.belongs |= CLAIMS.get(name, False)
        parts.spec["resourceClaims"] = listed
        if listed and draw.random() < 0.5:
            resources["claims"] = [{"name": "c0"}]
    parts.container["resources"] = resources
    if draw.random() < 0.2:
        parts.annotations["nvidia.com/gpu"] = draw.choice(("1", "true", ""))
    for name in ("volumes", "initContainers", "tolerations"):
        if draw.random() < 0.15:
            parts.spec[name] = draw.choice(([], None))
    for name in ("env", "envFrom", "volumeMounts"):
        if draw.random() < 0.15:
            parts.container[name] = draw.choice(([], None))
    if draw.random() < 0.1:
        parts.spec["runtimeClassName"] = "kata"
    if draw.random() < 0.1:
        parts.container["securityContext"] = {"privileged": False, "capabilities": {"add": None}}
    return parts


Plant = Callable[[Json, Json, Draw], None]
"""A function that plants a fault into the spec of a pod and one of its containers."""


def _privileged(_: Json, container: Json, __: Draw) -> None:
    container["securityContext"] = {"privileged": True}


def _capability(_: Json, container: Json, draw: Draw) -> None:
    name = draw.choice(("SYS_ADMIN", "ALL", "sys_admin", "SYS_PTRACE", "BPF", "NET_ADMIN"))
    container["securityContext"] = {"capabilities": {"add": [name]}}


def _tolerated(spec: Json, _: Json, draw: Draw) -> None:
    spec["tolerations"] = [draw.choice(({"operator": "Exists"}, TOLERATION))]


def _runtime_class(spec: Json, _: Json, draw: Draw) -> None:
    spec["runtimeClassName"] = draw.choice(("nvidia", "nvidia-cdi", "nvidia-legacy"))


def _node(spec: Json, _: Json, __: Draw) -> None:
    spec["nodeName"] = NODE


def _path(spec: Json, container: Json, draw: Draw) -> None:
    path = draw.choice(("/dev/nvidia0", "/dev//nvidiactl", "/dev/./nvidia-uvm"))
    spec["volumes"] = [{"name": "host", "hostPath": {"path": path}}]
    container["volumeMounts"] = [{"name": "host", "mountPath": "/host"}]


def _parent(spec: Json, container: Json, draw: Draw) -> None:
    _path(spec, container, draw)
    spec["volumes"][0]["hostPath"]["path"] = draw.choice(
        ("/", "/dev", "/dev/", "/sys", "/proc/1/task/1", "/var/lib/rancher/k3s/agent/pod-manifests")
    )


def _namespace(spec: Json, _: Json, draw: Draw) -> None:
    spec[draw.choice(("hostPID", "hostIPC", "hostNetwork"))] = True


def _variable(_: Json, container: Json, draw: Draw) -> None:
    if draw.random() < 0.5:
        container["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    else:
        container["envFrom"] = [{"prefix": "NVIDIA_", "configMapRef": {"name": "a"}}]


@dataclass(frozen=True)
class Fault:
    """A fault, and the objects to which rules forbid it.

    Attributes:
        plant: Function that plants the fault.
        rules: The rules that forbid it.
        to: What the objects prove.
        in_ephemeral: Whether an ephemeral container can have the fault.
        in_updates: Whether an update of a pod can bring the fault.
        in_daemon_sets: Whether the rules forbid it to DaemonSets as long as nobody declares which
            namespaces are trusted.
        spaces: The namespaces in which the rules forbid it.
    """

    plant: Plant
    rules: frozenset[str]
    to: frozenset[str]
    in_ephemeral: bool = False
    in_updates: bool = False
    in_daemon_sets: bool = True
    spaces: frozenset[str] = frozenset({SPACE, UNNAMED, TRUSTING, UNTAINTED})


_BOTH = frozenset({WITH, WITHOUT, OPEN})
FAULTS: Final = {
    "privileged": Fault(_privileged, frozenset({"GPU022"}), frozenset({WITH, OPEN}), True),
    "a capability": Fault(_capability, frozenset({"GPU022"}), frozenset({WITH, OPEN}), True),
    "a toleration": Fault(
        _tolerated,
        frozenset({"GPU032"}),
        frozenset({WITHOUT, OPEN}),
        in_updates=True,
        in_daemon_sets=False,
        spaces=frozenset({SPACE, UNNAMED, TRUSTING}),
    ),
    "a RuntimeClass": Fault(_runtime_class, frozenset({"GPU063"}), frozenset({WITHOUT, OPEN})),
    "a node": Fault(_node, frozenset({"GPU016", "GPU064"}), _BOTH),
    "a device": Fault(_path, frozenset({"GPU036"}), _BOTH),
    "a folder of the node": Fault(_parent, frozenset({"GPU036"}), frozenset({WITH, OPEN})),
    "a namespace of the node": Fault(_namespace, frozenset({"GPU067"}), frozenset({WITH, OPEN})),
    "a variable": Fault(_variable, frozenset({"GPU017"}), _BOTH, True),
    "privileged near GPUs": Fault(
        _privileged,
        frozenset({"GPU022", "GPU079"}),
        _BOTH,
        True,
        spaces=frozenset({UNTAINTED}),
    ),
    "a folder of a node with GPUs": Fault(
        _parent, frozenset({"GPU036"}), _BOTH, spaces=frozenset({UNTAINTED})
    ),
}


def _pod_case(draw: Draw, number: int) -> Case:
    kind = list(KINDS)[number % len(KINDS)]
    parts = _requests(draw, kind)
    if parts.belongs:
        parts.spec["tolerations"] = [TOLERATION]
    space = draw.choice((SPACE, UNNAMED, TRUSTING, UNTAINTED))
    names = [
        name
        for name, fault in FAULTS.items()
        if parts.proof in fault.to
        and space in fault.spaces
        and not (name == "a toleration" and parts.belongs)
        and (kind != "DaemonSet" or fault.in_daemon_sets or space in (TRUSTING, UNTAINTED))
    ]
    name = draw.choice(names)
    fault = FAULTS[name]
    how = draw.choice(("create", "ephemeral", "update")) if kind == "Pod" else "create"
    if (how == "ephemeral" and not fault.in_ephemeral) or (
        how == "update" and not fault.in_updates
    ):
        how = "create"
    container: Json = {"name": "a", "image": "a:1", **parts.container}
    init = how == "create" and draw.random() < 0.3
    good = {**parts.spec, "containers": [container]}
    if init:
        good["initContainers"] = [{"name": "first", "image": "a:1"}]
    bad = copy.deepcopy(good)
    if how == "ephemeral":
        added: Json = {"name": "shell", "image": "a:1"}
        fault.plant(bad, added, draw)
        bad["ephemeralContainers"] = [added]
    else:
        fault.plant(bad, bad["initContainers" if init else "containers"][0], draw)
    good, bad = (_object(kind, number, spec, parts.annotations) for spec in (good, bad))
    good["metadata"]["namespace"] = bad["metadata"]["namespace"] = space
    return Case(good, bad, fault.rules, f"{kind}, {parts.proof}: {name} by {how}", how)


def _object(kind: str, number: int, spec: Json, annotations: Json) -> Json:
    version, path = KINDS[kind]
    labels = {"app": "a"}
    metadata: Json = {"name": f"o{number}", "namespace": SPACE}
    if not path:
        metadata["annotations"] = annotations
        return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    if kind in ("Job", "CronJob"):
        spec = {**spec, "restartPolicy": "Never"}
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}
    made: Json = {"apiVersion": version, "kind": kind, "metadata": metadata}
    owner = made
    for key in path[:-1]:
        owner = owner.setdefault(key, {})
    owner[path[-1]] = template
    if kind == "ReplicationController":
        made["spec"]["selector"] = labels
    elif version == "apps/v1":
        made["spec"]["selector"] = {"matchLabels": labels}
    elif kind == "CronJob":
        made["spec"]["schedule"] = "0 0 * * *"
    return made


def _claim_case(draw: Draw, number: int) -> Case:
    """Draw a claim under a cap: its count, its name, adminAccess; or many claims of a pod."""
    fault = draw.choice(("count", "All", "name", "admin", "claims", "class"))
    if fault in ("claims", "class"):
        return _uncounted(draw, number, fault)
    may = [name for name, has in CLASSES.items() if has]
    name = draw.choice([*CLAIMS, *(f"x{number}" for _ in range(3))])
    other = name in CLAIMS and not CLAIMS[name]
    fitting = [each for each, has in CLASSES.items() if not (other and has)]
    requests = [
        _asked(draw, draw.choice(fitting), index) for index in range(draw.choice((0, 1, 2)))
    ]
    rules = {"count": "GPU065", "All": "GPU065", "name": "GPU077", "admin": "GPU068"}[fault]
    bad_name, planted = name, _asked(draw, draw.choice(may), len(requests))
    choice = planted.get("exactly") or planted["firstAvailable"][0]
    if fault == "count":
        choice["count"] = draw.choice((CAP + 1, 31))
    elif fault == "All":
        choice.pop("count", None)
        choice["allocationMode"] = "All"
    elif fault == "name":
        bad_name = draw.choice([each for each, belongs in CLAIMS.items() if not belongs])
    elif fault == "admin":
        exactly = {"deviceClassName": draw.choice(list(CLASSES)), "adminAccess": True}
        planted = {"name": f"r{len(requests)}", "exactly": exactly}
    kind = draw.choice(("ResourceClaim", "ResourceClaimTemplate"))
    empty: Json = draw.choice(({}, {"devices": {}}, {"devices": {"requests": None}}))
    good = {"devices": {"requests": requests}} if requests else empty
    bad = {"devices": {"requests": [*requests, planted]}}
    made = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": named, "namespace": CAPPED},
            "spec": {"spec": spec} if kind == "ResourceClaimTemplate" else spec,
        }
        for named, spec in ((name, good), (bad_name, bad))
    ]
    return Case(made[0], made[1], frozenset({rules}), f"{kind}: {fault}")


def _asked(draw: Draw, device_class: str, index: int) -> Json:
    one: Json = {"deviceClassName": device_class, "count": draw.choice((1, 2))}
    if draw.random() < 0.5:
        return {"name": f"r{index}", "exactly": one}
    first = {"name": "first", "deviceClassName": "nic.example.com", "count": 1}
    alternatives = [{"name": "a", **one}, *([first] if draw.random() < 0.5 else [])]
    return {"name": f"r{index}", "firstAvailable": alternatives}


def _uncounted(draw: Draw, number: int, fault: str) -> Case:
    """Draw a pod whose devices nobody can count under a cap."""
    names = draw.sample([name for name, belongs in CLAIMS.items() if belongs], k=3)
    others = draw.sample([name for name, belongs in CLAIMS.items() if not belongs], k=1)
    container: Json = {"name": "a", "image": "a:1", "resources": {"requests": {"cpu": "1"}}}
    good, bad = (
        {
            "containers": [copy.deepcopy(container)],
            "tolerations": [TOLERATION],
            "resourceClaims": [
                {"name": f"c{index}", "resourceClaimTemplateName": name}
                for index, name in enumerate(claims)
            ],
        }
        for claims in ([names[0], *others], [*names, *others])
    )
    if fault == "class":
        bad["resourceClaims"] = good["resourceClaims"]
        name = f"{BY_CLASS}{draw.choice([name for name, has in CLASSES.items() if has])}"
        bad["containers"][0]["resources"] = {part: {name: "1"} for part in ("limits", "requests")}
    rule = "GPU070" if fault == "class" else "GPU028"
    kind = draw.choice(("Pod", "Deployment", "ReplicaSet"))
    made = [_object(kind, number, spec, {}) for spec in (good, bad)]
    for manifest in made:
        manifest["metadata"]["namespace"] = CAPPED
    return Case(made[0], made[1], frozenset({rule}), f"{kind}: {fault} that nobody counts")
