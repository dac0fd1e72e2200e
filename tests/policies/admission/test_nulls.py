"""An API server answers each object in words of a rule or of its own, whatever is null in it.

The API server writes a list without entries as null if its Go type has no `omitempty`, such as the
requests of a ResourceClaim. CEL that iterates over null fails to evaluate.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from gpu_rules.admission import manifests
from tests.policies.admission.cluster import (
    CONTEXTS,
    GPU,
    LABEL,
    WARN,
    answer,
    create,
    delete,
    edit,
    path,
)

Json = dict[str, Any]
SPACE = "plugin"
FAILED = re.compile(r"fails? to evaluate|resulted in error|failed to|no such|expected iterable")
"""Pattern of the API server's words for CEL that could not be evaluated."""
EMPTY: Mapping[str, Any] = {"null": None, "no list": [], "no map": {}}
EXTREMES: Mapping[type, tuple[Any, ...]] = {
    str: ("", "9" * 18, "9" * 25, f"{'9' * 25}%", "-9", "1e999", "..", "=:,"),
    int: (2**63 - 1, -(2**63), 2**31 - 1, 0),
}
"""Values that stand in place of a text or a number."""


def _metadata(**fields: Any) -> Json:
    return {
        "name": "nothing",
        "namespace": SPACE,
        "labels": {"app": "a"},
        "annotations": {"exempt.gpu-cluster/GPU022": "2030-12-31 for tests"},
        **fields,
    }


def _cluster_wide(**labels: str) -> Json:
    metadata = _metadata(labels={LABEL: SPACE, **labels})
    del metadata["namespace"]
    return metadata


CONTAINER: Json = {
    "name": "a",
    "image": "a:1",
    "env": [{"name": "A", "value": "b"}],
    "envFrom": [{"prefix": "B", "configMapRef": {"name": "a"}}],
    "volumeMounts": [{"name": "data", "mountPath": "/dev/shm"}],
    "securityContext": {"capabilities": {"add": ["SYS_NICE"]}},
    "resources": {
        "limits": {"memory": "1Gi", GPU: "1"},
        "requests": {"cpu": "1", "memory": "1Gi", GPU: "1"},
        "claims": [{"name": "it"}],
    },
}
TERM: Json = {
    "matchExpressions": [
        {"key": "gpu", "operator": "In", "values": ["a100"]},
        {"key": "size", "operator": "Gt", "values": ["4"]},
    ],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}],
}
SPEC: Json = {
    "initContainers": [{**CONTAINER, "name": "first"}],
    "containers": [CONTAINER],
    "volumes": [
        {"name": "data", "hostPath": {"path": "/data"}},
        {"name": "csi", "csi": {"driver": "a.example", "volumeAttributes": {"a": "b"}}},
        {"name": "flex", "flexVolume": {"driver": "example/a", "options": {"a": "b"}}},
    ],
    "tolerations": [{"operator": "Exists"}],
    "nodeSelector": {"gpu": "a100"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}
        }
    },
    "resourceClaims": [{"name": "it", "resourceClaimName": "nic"}],
}
TEMPLATE: Json = {"metadata": {"labels": {"app": "a"}, "annotations": {"a": "b"}}, "spec": SPEC}
ONCE: Json = {**TEMPLATE, "spec": {**SPEC, "restartPolicy": "Never"}}
SELECTOR: Json = {"matchLabels": {"app": "a"}}
ASKED: Json = {"deviceClassName": "gpu.nvidia.com", "count": 1}
REQUESTS: Json = {
    "devices": {
        "requests": [
            {"name": "one", "exactly": ASKED},
            {"name": "either", "firstAvailable": [{"name": "a", **ASKED}]},
        ]
    }
}


def _object(kind: str, version: str = "v1", metadata: Json | None = None, **fields: Any) -> Json:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": _metadata() if metadata is None else metadata,
        **fields,
    }


LIMITED: Json = {
    field: {"cpu": amount}
    for field, amount in (("min", "1"), ("defaultRequest", "2"), ("default", "3"), ("max", "4"))
}
OWNER: Json = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": "0"}
OBJECTS: list[Json] = [
    _object("Pod", metadata=_metadata(ownerReferences=[OWNER]), spec=SPEC),
    _object("PodTemplate", template=TEMPLATE),
    _object("ReplicationController", spec={"selector": {"app": "a"}, "template": TEMPLATE}),
    *(
        _object(kind, "apps/v1", spec={"selector": SELECTOR, "template": TEMPLATE})
        for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
    ),
    _object(
        "Deployment",
        "apps/v1",
        spec={
            "selector": SELECTOR,
            "template": TEMPLATE,
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "replicas": 2**31 - 1,
        },
    ),
    _object("Job", "batch/v1", spec={"template": ONCE}),
    _object(
        "CronJob",
        "batch/v1",
        spec={"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": ONCE}}},
    ),
    _object("LimitRange", spec={"limits": [{"type": "Container", **LIMITED}]}),
    _object("ResourceQuota", spec={"hard": {"requests.nvidia.com/gpu": "8"}}),
    _object("ConfigMap", data={"a": "b"}),
    _object("Secret", data={"a": "Yg=="}),
    _object("ResourceClaim", "resource.k8s.io/v1", spec=REQUESTS),
    _object("ResourceClaimTemplate", "resource.k8s.io/v1", spec={"spec": REQUESTS}),
    _object(
        "PersistentVolume",
        metadata=_cluster_wide(),
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/data"},
        },
    ),
    _object("Node", metadata=_cluster_wide(), spec={"taints": []}),
    _object("Namespace", metadata=_cluster_wide()),
]
"""An object of each kind that policies check, with all lists and maps that CEL reads."""


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all lists and maps in a value, without the value itself."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in entries:
        if isinstance(inner, dict | list):
            yield (*above, key)
            yield from places(inner, (*above, key))


def leaves(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the path and the value of each text and number in a value."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, dict | list):
            yield from leaves(inner, (*above, key))
        else:
            yield (*above, key), inner


def replaced(manifest: Json, place: tuple[Any, ...], value: Any) -> Json:
    made = copy.deepcopy(manifest)
    owner: Any = made
    for key in place[:-1]:
        owner = owner[key]
    owner[place[-1]] = value
    return made


def test_the_objects_have_each_list_that_cel_reads() -> None:
    text = json.dumps([manifests(context, WARN) for context in CONTEXTS.values()])
    read = set(re.findall(r"\.\?(\w+)\.optFlatMap\(present", text))
    # The API server adds managedFields, and the overhead of a RuntimeClass. A pod gets ephemeral
    # containers by another request.
    others = {"ephemeralContainers", "managedFields", "overhead"}
    shown = {key for shown in OBJECTS for place in places(shown) for key in place}
    assert read - others <= shown
    assert "orValue([])" in text
    assert not re.findall(r"(?<!present\)\))\.orValue\((?:\[\]|\{\})\)", text), "without null"


@pytest.mark.slow
@pytest.mark.promise("No object ends in an evaluation error of the policies, whatever is null.")
@pytest.mark.parametrize("manifest", OBJECTS, ids=lambda manifest: manifest["kind"])
def test_whatever_is_null_is_judged(api: httpx.Client, manifest: Json) -> None:
    assert create(api, manifest).taken, create(api, manifest).text
    tried = 0
    for place in places(manifest):
        if place in (("metadata",),):
            continue
        for name, value in EMPTY.items():
            said = create(api, replaced(manifest, place, value))
            assert not FAILED.search(said.text), (place, name, said.text)
            tried += said.taken
    assert tried


@pytest.mark.slow
@pytest.mark.promise("No object ends in an evaluation error of the policies, whatever is huge.")
@pytest.mark.parametrize("manifest", OBJECTS, ids=lambda manifest: manifest["kind"])
def test_whatever_is_huge_is_judged(api: httpx.Client, manifest: Json) -> None:
    tried = 0
    for place, value in leaves(manifest):
        if place in (("apiVersion",), ("kind",), ("metadata", "namespace"), ("metadata", "name")):
            continue
        for extreme in EXTREMES.get(type(value), ()):
            said = create(api, replaced(manifest, place, extreme))
            assert not FAILED.search(said.text), (place, extreme, said.text)
            tried += 1
    assert tried


@pytest.mark.slow
def test_whatever_becomes_null_is_judged(api: httpx.Client) -> None:
    for manifest in OBJECTS:
        if "namespace" not in manifest["metadata"]:
            continue
        url = f"{path(manifest)}/{manifest['metadata']['name']}?dryRun=All"
        assert create(api, manifest, dry=False).taken
        try:
            live = api.get(url).json()
            live["metadata"].pop("managedFields")
            for place in places(live):
                if place == ("metadata",):
                    continue
                said = answer(api.put(url, json=replaced(live, place, None)))
                assert not FAILED.search(said.text), (place, said.text)
        finally:
            delete(api, manifest)


@pytest.mark.slow
def test_ephemeral_containers_of_nothing_are_judged(api: httpx.Client) -> None:
    pod = OBJECTS[0]
    assert create(api, pod, dry=False).taken
    try:
        shell: Json = {"name": "shell", "image": "a:1", "env": [], "envFrom": None}
        for value in (None, [shell]):

            def add(live: Json, value: Any = value) -> None:
                live["spec"]["ephemeralContainers"] = value

            said = edit(api, pod, add, subresource="/ephemeralcontainers")
            assert not FAILED.search(said.text), said.text
    finally:
        delete(api, pod)
