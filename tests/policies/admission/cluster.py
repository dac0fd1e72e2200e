"""Helpers that install the admission policies on a real API server and send manifests to it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import httpx

from gpu_rules.admission import Enforcement, grants, manifests
from gpu_rules.admission.objects import bound_policy, resource_rule
from gpu_rules.kube.gpu_resources import BY_CLASS, HAMI_MEMORY, VCUDA_CORE
from gpu_rules.rules import (
    RULES,
    Context,
    Mig,
    NodeTaint,
    PluginFacts,
    PoolFacts,
    Severity,
    Sharing,
)
from gpu_rules.rules import TWINS as RULE_TWINS
from gpu_rules.rules.exemptions import GRANT
from gpu_rules.rules.twin import Twin
from lab.benchmarks.api_server import await_true, make_namespace

GPU = "nvidia.com/gpu"
LABEL = "guarded"
"""Label of namespaces and of cluster-scoped objects; its value is a key of `CONTEXTS`."""

_TAINT = NodeTaint(GPU, "present")
_NODES = frozenset({"gpu-1"})
_POOLS = (
    PoolFacts(
        "a100", 8, (_TAINT,), {"gpu": "a100", "zone": "a", "size": "8"}, nodes=1, node_names=_NODES
    ),
    PoolFacts(
        "t4", 2, (_TAINT, NodeTaint("batch", "", "NoExecute")), {"gpu": "t4", "size": "2"}, nodes=1
    ),
    PoolFacts("system", 0, (), {"gpu": "none"}, nodes=3),
)
_OPEN = PoolFacts(
    "open", 4, (NodeTaint("soft", "", "PreferNoSchedule"),), {"gpu": "v100"}, gpu_memory_mib=16384
)
EVERYTHING = Context(
    pools=_POOLS,
    platform="device-plugin",
    resource_names=frozenset({VCUDA_CORE, HAMI_MEMORY}),
    plugin=PluginFacts(sharing=Sharing.TIME_SLICING, replicas=2),
    runtime_class="",
    runtime_classes=frozenset({"kata"}),
    max_gpus_per_container=6,
    max_gpus_per_pod=12,
)
"""Complete facts about a cluster, so that every rule applies."""

CONTEXTS: Mapping[str, Context] = {
    "unknown": Context(),
    "plugin": EVERYTHING,
    "vcuda": Context(
        pools=(*(replace(pool, nodes=None, gpu_memory_mib=8200) for pool in _POOLS), _OPEN),
        platform="gpu-manager",
        # Of an extended resource, of a DeviceClass, and of the resource of a DeviceClass.
        resource_names=frozenset(
            {"nvidia.com/gpus", "example.com/npu", "npu.example.com", f"{BY_CLASS}npu.example.com"}
        ),
        other_claims=frozenset({"mine"}),
        max_gpus_per_container=2,
    ),
    "whole": Context(
        pools=(*_POOLS, _OPEN),
        platform="device-plugin",
        plugin=PluginFacts(),
        runtime_class="",
        # The API server takes each name with kubernetes.io/ for one of its own.
        resource_names=frozenset({"npu.kubernetes.io/card"}),
        max_gpus_per_container=2,
        max_gpus_per_pod=3,
    ),
    "infrastructure": Context(
        pools=_POOLS[:1],
        platform="gpu-operator",
        plugin=PluginFacts(mig=Mig.SINGLE, sharing=Sharing.MPS, renamed=True, replicas=4),
        runtime_class="nvidia",
        extended_resource_toleration=True,
        infrastructure_namespaces=frozenset({"kube-system", "infrastructure", "gpu-system"}),
        max_gpus_per_pod=2,
    ),
}
"""Facts about example clusters, by the namespace in which the policies use the facts."""

RUNTIME_CLASSES = ("nvidia", "kata", "other")

TWINS = {rule for rule in RULES if isinstance(RULE_TWINS[rule], Twin)}
WARN = Enforcement({Severity.MANDATORY: ["Warn"], Severity.ADVISORY: ["Warn"]})
_RULE = re.compile(r"[:;] (GPU\d{3}) ")
_PLURALS = {
    "DeviceClass": "deviceclasses",
    "RuntimeClass": "runtimeclasses",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}

DAEMON_SET_CONTROLLER = "system:serviceaccount:kube-system:daemon-set-controller"
LATEST = "2030-12-31"
"""Date until which the namespaces of tests grant exemptions from all rules."""

Json = dict[str, Any]
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
SIZE = {"cpu": "1", "memory": "1Gi"}


def container(limits: Json, **fields: Any) -> Json:
    resources = {"requests": SIZE, "limits": {"memory": "1Gi", **limits}}
    return {"name": "cuda", "image": "cuda:13.0", "resources": resources, **fields}


def pod(namespace: str, *containers: Json, name: str = "train", **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": list(containers), "tolerations": [TOLERATION], **spec},
    }


GOOD = container({GPU: 1})
"""A container that breaks no mandatory rule."""


@dataclass(frozen=True)
class Answer:
    """The API server's answer to a request.

    Attributes:
        status: HTTP status.
        rules: Ids of the rules in the denial, or in the warnings if the request was accepted.
        text: The warnings and the message of the denial.
    """

    status: int
    rules: frozenset[str]
    text: str

    @property
    def taken(self) -> bool:
        return self.status in (200, 201)


def path(manifest: Mapping[str, Any]) -> str:
    """Return the URL path at which the API server creates the object of a manifest."""
    version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
    group = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    space = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{group}{space}/{_PLURALS.get(kind, kind.lower() + 's')}"


def context_name(manifest: Mapping[str, Any]) -> str:
    """Return the key in `CONTEXTS` of the cluster facts that apply to a manifest."""
    metadata = manifest["metadata"]
    return str(metadata["namespace"] if "namespace" in metadata else metadata["labels"][LABEL])


def answer(response: httpx.Response) -> Answer:
    warnings = response.headers.get_list("warning")
    refusal = response.json().get("message", "") if response.status_code >= 400 else ""
    text = "\n".join([*warnings, refusal])
    # A denied request may also have warnings. Only the rules in the denial are returned.
    rules = _RULE.findall(refusal or text)
    return Answer(response.status_code, frozenset(rules), text)


def create(
    client: httpx.Client, manifest: Mapping[str, Any], *, dry: bool = True, user: str = ""
) -> Answer:
    """Create an object as a user and return the API server's answer.

    Args:
        client: Client with the rights of an administrator.
        manifest: The object.
        dry: Whether the request is only a dry run.
        user: Name of the user to impersonate; empty for the administrator.
    """
    url = path(manifest) + ("?dryRun=All" if dry else "")
    return answer(client.post(url, json=manifest, headers=acting_as(user)))


def acting_as(user: str) -> dict[str, str]:
    """Return the HTTP headers with which an administrator impersonates a user."""
    return {"Impersonate-User": user} if user else {}


def maker(manifest: Mapping[str, Any]) -> str:
    """Return the name of the user that creates an object in a real cluster.

    This is the DaemonSet controller for a pod of a DaemonSet, and otherwise the administrator,
    for whom the name is empty.
    """
    owners = manifest["metadata"].get("ownerReferences", ())
    controlled = any(owner["kind"] == "DaemonSet" and owner["controller"] for owner in owners)
    return DAEMON_SET_CONTROLLER if controlled else ""


def edit(
    client: httpx.Client,
    manifest: Mapping[str, Any],
    change: Callable[[Json], None],
    *,
    subresource: str = "",
    user: str = "",
) -> Answer:
    """Read an object, change it and replace it; retry if another client changed it in between."""
    url = f"{path(manifest)}/{manifest['metadata']['name']}{subresource}"
    while True:
        live = read(client, manifest)
        change(live)
        said = answer(client.put(url, json=live, headers=acting_as(user)))
        if said.status != 409:
            return said


def read(client: httpx.Client, manifest: Mapping[str, Any]) -> Json:
    """Return the stored state of an object from the API server."""
    response = client.get(f"{path(manifest)}/{manifest['metadata']['name']}")
    assert response.status_code == 200, response.text
    stored: Json = response.json()
    return stored


def apply(client: httpx.Client, manifest: Mapping[str, Any]) -> None:
    """Apply an object with server-side apply; fail if the API server denies it or warns."""
    response = client.patch(
        f"{path(manifest)}/{manifest['metadata']['name']}?fieldManager=tests&force=true",
        content=json.dumps(manifest),
        headers={"content-type": "application/apply-patch+yaml"},
    )
    assert response.status_code in (200, 201), response.text
    assert "warning" not in response.headers, response.headers["warning"]


def delete(client: httpx.Client, manifest: Mapping[str, Any]) -> None:
    """Delete an object, if it exists, without a grace period."""
    url = f"{path(manifest)}/{manifest['metadata']['name']}?gracePeriodSeconds=0"
    assert client.delete(url).status_code in (200, 202, 404)


def policies(how: Enforcement) -> list[Json]:
    """Return the admission policies for a cluster to which all rules apply, without bindings."""
    made = manifests(EVERYTHING, how)
    return [policy for policy in made if policy["kind"] == "ValidatingAdmissionPolicy"]


def only(
    namespace: str, context: Context, how: Enforcement, labels: Mapping[str, str]
) -> list[Json]:
    """Return policies and bindings that apply only in namespaces with given labels.

    The names of policies and bindings end with the name of the namespace. The policy that controls
    grants of exemptions is left out, because it applies in all namespaces.
    """
    made = copy.deepcopy(
        [each for each in manifests(context, how) if each["metadata"]["name"] != grants.NAME]
    )
    for manifest in made:
        manifest["metadata"]["name"] += f"-{namespace}"
        if manifest["kind"] == "ValidatingAdmissionPolicyBinding":
            manifest["spec"]["policyName"] = manifest["metadata"]["name"]
            selector = manifest["spec"]["matchResources"]["namespaceSelector"]
            selector["matchLabels"] = dict(labels)
    return made


def install(client: httpx.Client, namespace: str, context: Context, how: Enforcement) -> None:
    """Create a namespace with its own policies and bindings, and wait until they are in force."""
    make_namespace(client, namespace)
    granted = {f"{GRANT}{rule}": f"{LATEST} for tests" for rule in RULES}
    # The API server accepts a ResourceClaim with adminAccess only in a namespace with the label
    # resource.kubernetes.io/admin-access.
    labels = {LABEL: namespace, "resource.kubernetes.io/admin-access": "true"}
    metadata = {"name": namespace, "labels": labels, "annotations": granted}
    apply(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    for manifest in only(namespace, context, how, {LABEL: namespace}):
        apply(client, manifest)
    _await_policies(client, namespace)


def _await_policies(client: httpx.Client, namespace: str) -> None:
    """Wait until all policies and bindings that were applied so far are in force.

    An API server gets policies, and bindings, in the order of their changes, and takes all that it
    has into force together (k8s.io/apiserver v0.36.3 pkg/admission/plugin/policy/generic
    policy_source.go). So a last policy, which refuses one ConfigMap, is in force after the others.
    """
    name = f"last-{uuid4().hex}"
    rule = {**resource_rule("", ["CREATE"], "configmaps"), "resourceNames": [name]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false"}],
    }
    last = bound_policy(name, {}, spec, ["Deny"])
    for manifest in last:
        apply(client, manifest)
    probe = {"apiVersion": "v1", "kind": "ConfigMap"}
    probe["metadata"] = {"name": name, "namespace": namespace}
    await_true(f"policies of {namespace} in force", lambda: create(client, probe).status == 422)
    for manifest in reversed(last):
        delete(client, manifest)
