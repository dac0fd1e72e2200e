"""A real API server with the policies in place, and what it says of a manifest."""

from __future__ import annotations

import copy
import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from benchmarks.api_server import await_true, make_namespace
from policies.admission import Enforcement, Twin, manifests, twin
from policies.rules import RULES, Context, Pool, Severity, Taint

GPU = "nvidia.com/gpu"
_TAINT = Taint(GPU, "present")
_POOLS = (
    Pool("a100", 8, (_TAINT,), {"gpu": "a100", "zone": "a"}),
    Pool("t4", 2, (_TAINT, Taint("batch", "", "NoExecute")), {"gpu": "t4"}),
    Pool("system", 0, (), {"gpu": "none"}),
)
CONTEXTS: Mapping[str, Context] = {
    "unknown": Context(),
    "plugin": Context(pools=_POOLS, platform="device-plugin"),
    "vcuda": Context(
        pools=(*_POOLS, Pool("open", 4, (Taint("soft", "", "PreferNoSchedule"),), {"gpu": "v100"})),
        platform="gpu-manager",
        resource_names=frozenset({"nvidia.com/gpus", "example.com/npu"}),
    ),
    "infrastructure": Context(
        pools=_POOLS[:1],
        extended_resource_toleration=True,
        infrastructure_namespaces=frozenset({"kube-system", "infrastructure"}),
    ),
}
"""By the namespace in which each holds. The policies are those of the last, with all rules."""

TWINS = {rule for rule in RULES if isinstance(twin(rule), Twin)}
WARN = Enforcement({Severity.MANDATORY: ["Warn"], Severity.ADVISORY: ["Warn"]})
_RULE = re.compile(r"[:;] (GPU\d{3}) ")
_PLURALS = {
    "ConfigMap": "configmaps",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}

Json = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What the API server answered: status, the rules named in warnings or the refusal, text."""

    status: int
    rules: frozenset[str]
    text: str

    @property
    def taken(self) -> bool:
        return self.status in (200, 201)


def path(manifest: Mapping[str, Any]) -> str:
    """Where objects of this kind are in the API."""
    version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
    group = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    space = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{group}{space}/{_PLURALS.get(kind, kind.lower() + 's')}"


def answer(response: httpx.Response) -> Answer:
    warnings = response.headers.get_list("warning")
    refusal = response.json().get("message", "") if response.status_code >= 400 else ""
    text = "\n".join([*warnings, refusal])
    return Answer(response.status_code, frozenset(_RULE.findall(text)), text)


def create(client: httpx.Client, manifest: Mapping[str, Any], *, dry: bool = True) -> Answer:
    """Creates an object, or only asks what would be said of it."""
    return answer(client.post(path(manifest) + ("?dryRun=All" if dry else ""), json=manifest))


def edit(
    client: httpx.Client,
    manifest: Mapping[str, Any],
    change: Callable[[Json], None],
    *,
    subresource: str = "",
) -> Answer:
    """Reads an object, changes it and replaces it, again where a controller was in between."""
    url = f"{path(manifest)}/{manifest['metadata']['name']}{subresource}"
    while True:
        live = read(client, manifest)
        change(live)
        said = answer(client.put(url, json=live))
        if said.status != 409:
            return said


def read(client: httpx.Client, manifest: Mapping[str, Any]) -> Json:
    """An object as it is stored."""
    response = client.get(f"{path(manifest)}/{manifest['metadata']['name']}")
    assert response.status_code == 200, response.text
    found: Json = response.json()
    return found


def apply(client: httpx.Client, manifest: Mapping[str, Any]) -> None:
    """Applies an object server-side; it must be taken, and without a warning."""
    response = client.patch(
        f"{path(manifest)}/{manifest['metadata']['name']}?fieldManager=tests&force=true",
        content=json.dumps(manifest),
        headers={"content-type": "application/apply-patch+yaml"},
    )
    assert response.status_code in (200, 201), response.text
    assert "warning" not in response.headers, response.headers["warning"]


def delete(client: httpx.Client, manifest: Mapping[str, Any]) -> None:
    """Deletes an object at once."""
    url = f"{path(manifest)}/{manifest['metadata']['name']}?gracePeriodSeconds=0"
    assert client.delete(url).status_code in (200, 202, 404)


def install(client: httpx.Client, namespace: str, context: Context, how: Enforcement) -> None:
    """Brings a namespace with its policies, by a parameter and bindings of its own.

    Comes back when the policies act.
    """
    marker = uuid.uuid4().hex[:8]
    make_namespace(client, namespace)
    metadata = {"name": namespace, "labels": {"guarded": marker}}
    apply(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    for given in manifests(context, how):
        manifest = copy.deepcopy(given)
        if manifest["kind"] == "ConfigMap":
            manifest["metadata"]["name"] += f"-{namespace}"
        if manifest["kind"] == "ValidatingAdmissionPolicyBinding":
            manifest["metadata"]["name"] += f"-{namespace}"
            manifest["spec"]["paramRef"]["name"] += f"-{namespace}"
            selector = manifest["spec"]["matchResources"]["namespaceSelector"]
            selector["matchLabels"] = {"guarded": marker}
        apply(client, manifest)
    for probe in _probes(namespace):
        await_true(f"{probe['kind']} judged in {namespace}", lambda p=probe: judged(client, p))


def judged(client: httpx.Client, probe: Mapping[str, Any]) -> bool:
    """Whether the policies say something of a manifest."""
    return bool(create(client, probe).rules)


def _probes(namespace: str) -> list[Json]:
    """A manifest for each shape, each against a rule of each severity in all contexts."""
    privileged: Json = {
        "name": "a",
        "image": "a",
        "resources": {"limits": {GPU: 1, "tencent.com/vcuda-core": 150}},
        "securityContext": {"privileged": True},
    }
    metadata = {"name": "probe", "namespace": namespace}
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [privileged]}}
    limit = {"type": "Container", "max": {GPU: 1}}
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]},
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": metadata,
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        },
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": metadata,
            "spec": {"limits": [limit]},
        },
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata,
            "spec": {"hard": {GPU: 1}},
        },
    ]
