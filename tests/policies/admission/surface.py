"""Find out which requests to a real API server can change a field that a rule reads.

The verbs of all resources and subresources come from the API server's discovery. Each verb is tried
on an API server without admission policies, for each field that a rule reads. The tests check that
a policy matches every request that can change such a field.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from lab.benchmarks.api_server import make_namespace

Json = dict[str, Any]

GPU = "nvidia.com/gpu"
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_OPERATIONS = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE"}
"""Operation in admission policies by API verb, for the verbs that write fields."""

STORES_NOTHING: Final[Mapping[str, str]] = {
    "LocalSubjectAccessReview": "answers whether somebody may do something",
    "NodeProxyOptions": "opens a connection to a kubelet",
    "PodAttachOptions": "opens a stream to a container",
    "PodExecOptions": "opens a stream to a container",
    "PodPortForwardOptions": "opens a stream to a pod",
    "PodProxyOptions": "opens a connection to a pod",
    "SelfSubjectAccessReview": "answers whether somebody may do something",
    "SelfSubjectReview": "answers who somebody is",
    "SelfSubjectRulesReview": "answers what somebody may do",
    "ServiceProxyOptions": "opens a connection to a service",
    "SubjectAccessReview": "answers whether somebody may do something",
    "TokenRequest": "makes a token, which no object holds",
    "TokenReview": "answers whose a token is",
}
"""Kinds of request bodies that change no object, with the reason."""


@dataclass(frozen=True, order=True)
class Endpoint:
    """One verb of a resource or subresource, from the discovery of an API server.

    Attributes:
        group: API group.
        version: API version.
        resource: Plural name of the resource.
        subresource: Name of the subresource, or empty.
        verb: API verb, such as `update`.
        kind: Kind of the object in the request.
        kind_version: apiVersion of the object in the request.
        namespaced: Whether objects of the resource are in a namespace.
        stored: Whether objects of the resource can be read.
    """

    group: str
    version: str
    resource: str
    subresource: str
    verb: str
    kind: str
    kind_version: str
    namespaced: bool
    stored: bool

    @property
    def operation(self) -> str:
        """Return the admission operation of the verb: `CREATE` or `UPDATE`."""
        return _OPERATIONS[self.verb]

    @property
    def full(self) -> str:
        """Return the resource with its subresource, such as `pods/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def __str__(self) -> str:
        return f"{self.verb} {self.group or 'core'}/{self.version} {self.full}"

    def url(self, space: str, name: str = "") -> str:
        """Return the URL path of an object in a namespace, or of all objects for an empty name."""
        root = f"/apis/{self.group}" if self.group else "/api"
        space = f"/namespaces/{space}" if self.namespaced else ""
        parts = [f"{root}/{self.version}{space}/{self.resource}", name, self.subresource]
        return "/".join(part for part in parts if part)


def endpoints(client: httpx.Client) -> list[Endpoint]:
    """Return all endpoints whose verbs write fields, from the API server's discovery."""
    found = []
    for root in ("/api", "/apis"):
        answer = client.get(root, headers={"accept": _DISCOVERY})
        assert answer.status_code == 200, answer.text
        for group in answer.json()["items"]:
            for version in group["versions"]:
                for resource in version["resources"]:
                    name = group["metadata"].get("name", "")
                    found += _of_resource(name, version["version"], resource)
    return sorted(found)


def _of_resource(group: str, version: str, listed: Json) -> Iterator[Endpoint]:
    for each in (listed, *listed.get("subresources", ())):
        kind = each["responseKind"]
        own = f"{kind['group']}/{kind['version']}" if kind["group"] else kind["version"]
        for verb in sorted(_OPERATIONS.keys() & each["verbs"]):
            yield Endpoint(
                group,
                version,
                listed["resource"],
                each.get("subresource", ""),
                verb,
                kind["kind"],
                own or (f"{group}/{version}" if group else version),
                listed["scope"] == "Namespaced",
                "get" in listed["verbs"],
            )


Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Added:
    """A value that a request appends to a list field, whose other items stay unchanged."""

    value: Any


_CONTAINER = {
    "name": "a",
    "image": "a:0",
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1"}},
}
_POD = {"spec": {"containers": [_CONTAINER]}}
_GATED = {"spec": {**_POD["spec"], "schedulingGates": [{"name": "example.com/wait"}]}}
"""A pod with a scheduling gate; the API server still accepts changes of its node selection."""
_TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [_CONTAINER]}}
_SELECTOR = {"selector": {"matchLabels": {"app": "a"}}}
_ONCE = {"metadata": {}, "spec": {"containers": [_CONTAINER], "restartPolicy": "Never"}}
_REQUEST = {"name": "a", "exactly": {"deviceClassName": "a"}}
_DEVICES = {"devices": {"requests": [_REQUEST]}}

SAMPLES: Final[Mapping[tuple[str, str], Json]] = {
    ("", "pods"): _POD,
    ("", "podtemplates"): {"template": _TEMPLATE},
    ("", "replicationcontrollers"): {"spec": {"selector": {"app": "a"}, "template": _TEMPLATE}},
    ("apps", "daemonsets"): {"spec": {**_SELECTOR, "template": _TEMPLATE}},
    ("apps", "deployments"): {"spec": {**_SELECTOR, "template": _TEMPLATE}},
    ("apps", "replicasets"): {"spec": {**_SELECTOR, "template": _TEMPLATE}},
    ("apps", "statefulsets"): {"spec": {**_SELECTOR, "serviceName": "a", "template": _TEMPLATE}},
    ("batch", "jobs"): {"spec": {"suspend": True, "template": _ONCE}},
    ("batch", "cronjobs"): {
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": _ONCE}}}
    },
    ("", "limitranges"): {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}},
    ("", "resourcequotas"): {"spec": {"hard": {"pods": "1000"}}},
    ("", "configmaps"): {"data": {"a": "0"}},
    ("", "secrets"): {"data": {"a": "MA=="}},
    ("", "namespaces"): {},
    ("", "nodes"): {},
    ("", "persistentvolumes"): {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/a"},
        }
    },
    ("resource.k8s.io", "resourceclaims"): {"spec": _DEVICES},
    ("resource.k8s.io", "resourceclaimtemplates"): {"spec": {"spec": _DEVICES}},
}
"""An object for each resource that the policies match."""

_POD_SPEC: Final[Mapping[Path, Any]] = {
    ("nodeName",): "gpu-1",
    ("nodeSelector",): {"a": "b"},
    ("tolerations",): Added({"operator": "Exists"}),
    ("runtimeClassName",): "other",
    ("hostPID",): True,
    ("volumes",): [{"name": "a", "hostPath": {"path": "/dev"}}],
    ("containers", 0, "image"): "b:1",
    ("containers", 0, "env"): [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
    ("containers", 0, "resources"): {
        "requests": {"cpu": "2", "memory": "1Gi"},
        "limits": {"cpu": "2"},
    },
    ("containers", 0, "resources", "limits"): {"cpu": "1", GPU: "1"},
    ("containers", 0, "securityContext"): {"privileged": True},
    ("ephemeralContainers",): [{"name": "shell", "image": "a"}],
    ("initContainers",): [{"name": "init", "image": "a"}],
}
_OF_TEMPLATE: Mapping[Path, Any] = {
    ("metadata", "annotations"): {"exempt.gpu-cluster/GPU022": "2030-12-31 why"},
    **{
        ("spec", *path): value
        for path, value in _POD_SPEC.items()
        if path != ("ephemeralContainers",)
    },
}
_CLAIMED = {"requests": [{"name": "a", "exactly": {"deviceClassName": "a", "count": 2}}]}
_ALLOCATED = {
    "devices": {
        "results": [{"request": "a", "driver": "gpu.nvidia.com", "pool": "p", "device": "d"}]
    }
}


def _below(root: Path, fields: Mapping[Path, Any]) -> dict[Path, Any]:
    return {(*root, *path): value for path, value in fields.items()}


_MARKED = {("metadata", "annotations"): {"exempt.gpu-cluster/GPU022": "2030-12-31 why"}}
_WORKLOAD = {**_below(("spec", "template"), _OF_TEMPLATE)}
_REPLICAS: Mapping[Path, Any] = {("spec", "replicas"): 7}

FIELDS: Final[Mapping[tuple[str, str], Mapping[Path, Any]]] = {
    ("", "pods"): {**_MARKED, **_below(("spec",), _POD_SPEC)},
    ("", "podtemplates"): _below(("template",), _OF_TEMPLATE),
    ("", "replicationcontrollers"): {**_WORKLOAD, **_REPLICAS},
    ("apps", "daemonsets"): _WORKLOAD,
    ("apps", "deployments"): {
        **_WORKLOAD,
        **_REPLICAS,
        ("spec", "strategy"): {"type": "Recreate"},
    },
    ("apps", "replicasets"): {**_WORKLOAD, **_REPLICAS},
    ("apps", "statefulsets"): {**_WORKLOAD, **_REPLICAS},
    ("batch", "jobs"): {
        **_WORKLOAD,
        ("spec", "activeDeadlineSeconds"): 60,
        ("spec", "backoffLimit"): 3,
    },
    ("batch", "cronjobs"): {
        **_below(("spec", "jobTemplate", "spec", "template"), _OF_TEMPLATE),
        ("spec", "jobTemplate", "spec", "backoffLimit"): 3,
    },
    ("", "limitranges"): {("spec",): {"limits": [{"type": "Container", "max": {GPU: "1"}}]}},
    ("", "resourcequotas"): {("spec", "hard"): {f"requests.{GPU}": "1"}},
    ("", "configmaps"): {("data",): {"NVIDIA_VISIBLE_DEVICES": "all"}},
    ("", "secrets"): {("data",): {"NVIDIA_VISIBLE_DEVICES": "YWxs"}},
    ("", "namespaces"): {
        ("metadata", "labels"): {"gpu-cluster/guardrails": "exempt"},
        ("metadata", "annotations"): {"grant.gpu-cluster/GPU022": "2030-12-31 why"},
    },
    ("", "nodes"): {
        ("metadata", "labels"): {"nvidia.com/cuda.driver-version.full": "580.126.20"},
    },
    ("", "persistentvolumes"): {("spec", "hostPath"): {"path": "/dev"}},
    ("resource.k8s.io", "resourceclaims"): {
        ("spec", "devices"): _CLAIMED,
        ("status", "allocation"): _ALLOCATED,
    },
    ("resource.k8s.io", "resourceclaimtemplates"): {("spec", "spec", "devices"): _CLAIMED},
}
"""The fields that rules read, by resource, each with a new value for the requests.

The annotations of a workload itself are missing: a change of its exemptions takes effect only at
the next change of the pod template.
"""


@dataclass(frozen=True)
class Change:
    """A field that a request to an endpoint of the API server changed."""

    endpoint: Endpoint
    resource: tuple[str, str]
    field: Path

    def __str__(self) -> str:
        return f"{self.endpoint}: {self.resource[1]} {'.'.join(map(str, self.field))}"


class Trial:
    """Requests to all endpoints of an API server, each with a newly created object."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.endpoints = endpoints(client)
        self._creating = {
            (each.group, each.resource): each
            for each in self.endpoints
            if (each.verb, each.subresource, each.version) == ("create", "", "v1")
        }
        self._numbers = itertools.count()
        for _, name in SAMPLES:
            make_namespace(client, _space(name))

    def changes(self) -> list[Change]:
        """Send requests to each endpoint, and return the fields that they changed.

        Raises:
            LookupError: An endpoint needs a kind of object for which no request is known.
        """
        return [change for endpoint in self.endpoints for change in self._try(endpoint)]

    def _try(self, endpoint: Endpoint) -> Iterator[Change]:
        resource = (endpoint.group, endpoint.resource)
        if endpoint.kind in STORES_NOTHING or (endpoint.stored and resource not in SAMPLES):
            # The endpoint changes no object, or only objects of a kind that no rule checks.
            return
        if endpoint.stored and endpoint.verb == "create" and not endpoint.subresource:
            self._create(resource, SAMPLES[resource])
            yield from (Change(endpoint, resource, field) for field in FIELDS[resource])
            return
        if not endpoint.stored:
            resource = ("", "pods")  # The resource `bindings` sets a pod's node.
        samples = [SAMPLES[resource], *([_GATED] if resource == ("", "pods") else [])]
        for field, value in FIELDS[resource].items():
            if any(self._changes(endpoint, resource, each, field, value) for each in samples):
                yield Change(endpoint, resource, field)

    def _changes(
        self, endpoint: Endpoint, resource: tuple[str, str], sample: Json, field: Path, value: Any
    ) -> bool:
        before = self._create(resource, sample)
        _send(self._client, endpoint, before, field, value)
        after = self._read(resource, before)
        return after is not None and _at(after, field) != _at(before, field)

    def _create(self, resource: tuple[str, str], sample: Json) -> Json:
        """Create an object from a sample under a new name, and return its stored state."""
        endpoint = self._creating[resource]
        manifest = {
            "apiVersion": endpoint.kind_version,
            "kind": endpoint.kind,
            "metadata": {"name": f"sample-{next(self._numbers)}"},
        }
        body = {**copy.deepcopy(sample), **manifest}
        answer = self._client.post(endpoint.url(_space(resource[1])), json=body)
        assert answer.status_code == 201, f"{endpoint}: {answer.text}"
        stored: Json = answer.json()
        return stored

    def _read(self, resource: tuple[str, str], manifest: Json) -> Json | None:
        """Return the stored state of an object, or None if the object does not exist."""
        url = self._creating[resource].url(_space(resource[1]), manifest["metadata"]["name"])
        answer = self._client.get(url)
        assert answer.status_code in (200, 404), answer.text
        stored: Json = answer.json()
        return stored if answer.status_code == 200 else None


def _space(resource: str) -> str:
    """Return the namespace for the objects of a resource.

    Each resource has its own namespace, so that the sample quotas don't affect other objects.
    """
    return f"surface-{resource}"


def _send(client: httpx.Client, endpoint: Endpoint, live: Json, field: Path, value: Any) -> None:
    """Send a request to an endpoint to change a field of an object; ignore the answer."""
    name, space = live["metadata"]["name"], live["metadata"].get("namespace", "")
    url = endpoint.url(space, name if endpoint.stored else "")
    body = _body(endpoint, live, field, value)
    if endpoint.verb == "create":
        client.post(url, json=body)
    elif endpoint.verb == "update":
        client.put(url, json=body)
    else:
        client.patch(url, json=body, headers={"content-type": "application/merge-patch+json"})


def _body(endpoint: Endpoint, live: Json, field: Path, value: Any) -> Json:
    metadata = {key: live["metadata"].get(key, "") for key in ("name", "namespace")}
    typed: Json = {"apiVersion": endpoint.kind_version, "kind": endpoint.kind, "metadata": metadata}
    match endpoint.kind:
        case "Scale":
            return {**typed, "spec": {"replicas": value if field[-1] == "replicas" else 1}}
        case "Binding":
            if field[0] == "metadata":
                metadata[str(field[1])] = value
            return {**typed, "target": {"kind": "Node", "name": "gpu-1"}}
        case "Eviction":
            return typed
        case kind if kind == live["kind"]:
            return _with(live, field, value)
    raise LookupError(
        f"{endpoint} takes a {endpoint.kind}, for which no request is known. Write one that tries "
        "to change what rules judge, or add the kind to STORES_NOTHING with the reason."
    )


def _with(live: Json, field: Path, value: Any) -> Json:
    """Return a copy of an object with a new value in one field."""
    result = copy.deepcopy(live)
    owner: Any = result
    for step in field[:-1]:
        owner = owner[int(step)] if isinstance(owner, list) else owner.setdefault(str(step), {})
    old = _at(live, field) or []
    owner[field[-1]] = [*old, value.value] if isinstance(value, Added) else value
    return result


def _at(manifest: Json, field: Path) -> Any:
    value: Any = manifest
    for step in field:
        value = value[int(step)] if isinstance(value, list) else (value or {}).get(step)
    return value


def matched(policies: Iterable[Json], endpoint: Endpoint) -> bool:
    """Return whether the `resourceRules` of at least one policy match requests to an endpoint."""
    return any(
        endpoint.group in rule["apiGroups"]
        and endpoint.full in rule["resources"]
        and endpoint.operation in rule["operations"]
        and (endpoint.version in rule["apiVersions"] or _equivalent(policy))
        for policy in policies
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
    )


def _equivalent(policy: Json) -> bool:
    """Return whether a policy matches all API versions (matchPolicy Equivalent, the default)."""
    return str(policy["spec"]["matchConstraints"].get("matchPolicy", "Equivalent")) == "Equivalent"
