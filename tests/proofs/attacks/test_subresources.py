"""Attack: a tenant bypasses admission policies through subresources or managedFields.

The tenant has all rights in one namespace. Exemptions from policies expire by date; the policies
read the date of a change from an object's managedFields, which the tenant tries to forge.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from gpu_cluster_lab.toolchain.pins import KUBERNETES
from gpu_cluster_lab.toolchain.versions import numbers
from gpu_rules.admission import OPT_OUT, Enforcement, grants, manifests
from gpu_rules.admission.exemptions import VARIABLES
from gpu_rules.rules import Context, Severity
from gpu_rules.rules.exemptions import GRANT, PREFIX
from lab.benchmarks.api_server import await_true
from tests.policies.admission.cluster import (
    EVERYTHING,
    GPU,
    LATEST,
    Answer,
    acting_as,
    answer,
    apply,
    create,
    delete,
    edit,
    install,
    path,
    read,
)

Json = dict[str, Any]
Change = Callable[[Json], None]
SPACE, TENANT, SCHEDULER = "lodging", "lodger", "system:kube-scheduler"
OWN_SCHEDULER = "own-scheduler"
CONTEXT = Context(pools=EVERYTHING.pools[:1], platform="device-plugin")
DENY = Enforcement({Severity.MANDATORY: ["Deny", "Audit"], Severity.ADVISORY: ["Warn", "Audit"]})
RBAC = "rbac.authorization.k8s.io"
TODAY_SEEN = "the policies see "


def pod(name: str, **limits: str) -> Json:
    size = {"cpu": "1", "memory": "1Gi"}
    resources = {"limits": {"memory": "1Gi", **limits}, "requests": {**size, **limits}}
    tolerations = [{"key": GPU, "operator": "Exists"}] if limits else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "tolerations": tolerations,
            "containers": [{"name": "a", "image": "a:1", "resources": resources}],
        },
    }


def space(name: str = SPACE, **metadata: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def _bound(kind: str, user: str, role: str, **metadata: str) -> Json:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": f"test-{user}", **metadata},
        "subjects": [{"kind": "User", "name": user, "apiGroup": RBAC}],
        "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": RBAC},
    }


@pytest.fixture(scope="module")
def lodging(api: httpx.Client) -> Iterator[httpx.Client]:
    """Install policies that deny violations, and give the tenant all rights in one namespace."""
    install(api, SPACE, CONTEXT, DENY)
    apply(api, _bound("RoleBinding", TENANT, "cluster-admin", namespace=SPACE))
    apply(api, _bound("ClusterRoleBinding", OWN_SCHEDULER, "system:kube-scheduler"))
    guard = [
        manifest
        for manifest in manifests(CONTEXT, DENY)
        if manifest["metadata"]["name"] == grants.NAME
    ]
    for manifest in guard:
        apply(api, manifest)
    await_true("grants guarded", lambda: label(api, "?dryRun=All").status == 403)
    waiting = pod("waiting")
    assert create(api, waiting, dry=False, user=TENANT).taken
    bound = "?dryRun=All"
    await_true("placing guarded", lambda: bind(api, waiting, TENANT, query=bound).status == 403)
    yield api
    delete(api, guard[1])


def label(api: httpx.Client, query: str) -> Answer:
    """Try, as the tenant, to set the label that exempts the namespace from the policies."""

    def lift(live: Json) -> None:
        live["metadata"]["labels"][OPT_OUT] = "exempt"

    return edit(api, space(), lift, subresource=query, user=TENANT)


def bind(
    api: httpx.Client,
    manifest: Json,
    user: str,
    *,
    node: str = "gpu-1",
    legacy: bool = False,
    query: str = "",
    **metadata: Any,
) -> Answer:
    """Bind a pod to a node, as a scheduler does."""
    name = manifest["metadata"]["name"]
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": SPACE, **metadata},
        "target": {"kind": "Node", "name": node},
    }
    url = f"/api/v1/namespaces/{SPACE}/" + ("bindings" if legacy else f"pods/{name}/binding")
    return answer(api.post(url + query, json=body, headers=acting_as(user)))


LIFTS: dict[str, Json] = {
    "label": {"labels": {OPT_OUT: "exempt"}},
    "grant": {"annotations": {f"{GRANT}GPU022": f"{LATEST} mine"}},
    "exemption": {"annotations": {f"{PREFIX}GPU060": f"{LATEST} mine"}},
}


@pytest.mark.promise(
    "Who may not grant exemptions can't lift rules from a namespace, by its subresources either."
)
@pytest.mark.parametrize("subresource", ["", "/status", "/finalize"])
@pytest.mark.parametrize("lifted", LIFTS)
def test_a_tenant_lifts_no_rule_by_a_subresource_of_his_namespace(
    lodging: httpx.Client, lifted: str, subresource: str
) -> None:
    def lift(live: Json) -> None:
        for field, more in LIFTS[lifted].items():
            live["metadata"][field] = {**live["metadata"].get(field, {}), **more}

    def note(live: Json) -> None:
        live["metadata"].setdefault("annotations", {})["note"] = f"by {subresource}"

    said = edit(lodging, space(), lift, subresource=subresource, user=TENANT)
    assert said.status == 403, said.text
    assert "exemptions.guardrails.gpu-cluster" in said.text
    assert edit(lodging, space(), note, subresource=subresource, user=TENANT).taken


def test_a_namespace_with_grants_still_ends(lodging: httpx.Client) -> None:
    leaving = space("leaving", annotations={f"{GRANT}GPU022": f"{LATEST} why"})
    leaving["metadata"]["labels"] = {OPT_OUT: "exempt"}
    assert create(lodging, leaving, dry=False).taken
    delete(lodging, leaving)
    url = f"{path(leaving)}/leaving"
    await_true("namespace gone", lambda: lodging.get(url).status_code == 404, seconds=120)


@pytest.mark.promise("Only schedulers put pods on nodes where the guardrails enforce.")
@pytest.mark.parametrize("legacy", [False, True], ids=["pods/binding", "bindings"])
@pytest.mark.parametrize("node", ["gpu-1", "plain-1"])
def test_a_tenant_binds_no_pod(lodging: httpx.Client, node: str, legacy: bool) -> None:
    waiting = pod("waiting")
    marked = {"annotations": {f"{PREFIX}GPU032": "for ever"}}
    for metadata in ({}, marked):
        said = bind(lodging, waiting, TENANT, node=node, legacy=legacy, **metadata)
        assert said.status == 403, said.text
        assert "only a scheduler may" in said.text
    assert "nodeName" not in read(lodging, waiting)["spec"]


@pytest.mark.parametrize("legacy", [False, True], ids=["pods/binding", "bindings"])
@pytest.mark.parametrize("user", [SCHEDULER, OWN_SCHEDULER])
def test_schedulers_bind_pods(lodging: httpx.Client, user: str, legacy: bool) -> None:
    placed = pod(f"placed-{user.rpartition(':')[2]}-{legacy}".lower())
    assert create(lodging, placed, dry=False).taken
    said = bind(lodging, placed, user, legacy=legacy)
    assert said.taken, said.text
    assert read(lodging, placed)["spec"]["nodeName"] == "gpu-1"


BINDING = "resourceclaims/binding"
"""Permission without an API endpoint: kubernetes v1.36.3 pkg/registry/resource/utils.go."""


def claim(name: str) -> Json:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"devices": {"requests": [request]}},
    }


@pytest.mark.promise("Only schedulers give devices to claims where the guardrails enforce.")
def test_a_tenant_gives_his_claim_no_devices(lodging: httpx.Client) -> None:
    device = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "gpu-1", "device": "gpu-0"}

    def allocate(live: Json) -> None:
        live["status"] = {"allocation": {"devices": {"results": [device]}}}

    def release(live: Json) -> None:
        live["status"] = {}

    wanted = claim("wanted")
    assert create(lodging, wanted, dry=False, user=TENANT).taken
    said = edit(lodging, wanted, allocate, subresource="/status", user=TENANT)
    # From Kubernetes 1.36 on, the API server itself requires this permission in addition to the
    # right to update the status.
    by_itself = numbers(KUBERNETES) >= (1, 36, 0)
    assert (said.status, BINDING in said.text) == ((422, True) if by_itself else (403, False))
    assert edit(lodging, wanted, allocate, subresource="/status", user=SCHEDULER).taken
    said = edit(lodging, wanted, release, subresource="/status", user=TENANT)
    assert (said.taken, BINDING in said.text) == (not by_itself, by_itself)


def test_annotations_of_a_pod_are_judged_by_its_status_too(lodging: httpx.Client) -> None:
    marked = pod("marked")
    assert create(lodging, marked, dry=False).taken

    def exempt(live: Json) -> None:
        live["metadata"]["annotations"] = {f"{PREFIX}GPU032": "for ever"}

    def run(live: Json) -> None:
        live["status"]["phase"] = "Running"

    said = edit(lodging, marked, exempt, subresource="/status", user=TENANT)
    assert (said.status, said.rules) == (403, {"GPU062"})
    assert edit(lodging, marked, run, subresource="/status", user=TENANT).text.strip() == ""


WRITER = "system:serviceaccount:hami-system:hami"
"""A scheduler and device plugin that writes annotations of pods in all namespaces."""


@pytest.fixture
def written(lodging: httpx.Client) -> Iterator[Json]:
    """Create a pod with the annotations that its scheduler and device plugin have written."""
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "test-hami"},
        "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch", "update"]},
        ],
    }
    account = {"kind": "ServiceAccount", "name": "hami", "namespace": "hami-system"}
    binding = _bound("ClusterRoleBinding", "hami", "test-hami")
    apply(lodging, role)
    apply(lodging, {**binding, "subjects": [account]})
    made = pod("assigned", **{GPU: "1"})
    assert create(lodging, made, dry=False, user=TENANT).taken

    def assign(live: Json) -> None:
        live["metadata"]["annotations"] = {"hami.io/vgpu-devices-allocated": "GPU-1", "a": "b"}

    await_true("assigned", lambda: edit(lodging, made, assign, user=WRITER).taken)
    yield made
    delete(lodging, made)


def _annotated(**changes: str | None) -> Change:
    def change(live: Json) -> None:
        given = {**live["metadata"]["annotations"], **changes}
        live["metadata"]["annotations"] = {k: v for k, v in given.items() if v is not None}

    return change


ASSIGNMENTS: dict[str, Change] = {
    "forged": _annotated(**{"hami.io/vgpu-devices-to-allocate": "GPU-2,NVIDIA,80000,100:;"}),
    "redirected": _annotated(**{"hami.io/vgpu-devices-allocated": "GPU-2"}),
    "removed": _annotated(**{"hami.io/vgpu-devices-allocated": None}),
    "read by the container runtime": _annotated(**{"cdi.k8s.io/a": "nvidia.com/gpu=all"}),
    "of gpu-manager": _annotated(**{"tencent.com/gpu-assigned": "true"}),
}


@pytest.mark.promise(
    "Only who may change pods in all namespaces, as schedulers may, writes the annotations by "
    "which a pod gets GPUs."
)
@pytest.mark.parametrize("subresource", ["", "/status"])
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_a_tenant_assigns_no_gpus_to_a_pod_by_annotations(
    lodging: httpx.Client, written: Json, assignment: str, subresource: str
) -> None:
    said = edit(lodging, written, ASSIGNMENTS[assignment], subresource=subresource, user=TENANT)
    assert said.status == 403, said.text
    assert "only a scheduler may" in said.text
    note = _annotated(a="c")
    assert edit(lodging, written, note, subresource=subresource, user=TENANT).taken


STATUSES: dict[str, Json] = {
    "a claim of the spec": {
        "resourceClaimStatuses": [{"name": "it", "resourceClaimName": "of-another"}]
    },
    "extended resources": {
        "extendedResourceClaimStatus": {
            "resourceClaimName": "of-another",
            "requestMappings": [
                {"containerName": "a", "resourceName": GPU, "requestName": "container-0-request-0"}
            ],
        }
    },
}


@pytest.mark.promise("Only schedulers give claims to pods where the guardrails enforce.")
@pytest.mark.parametrize("claimed", STATUSES)
def test_a_tenant_gives_his_pod_no_claim_by_its_status(lodging: httpx.Client, claimed: str) -> None:
    made = pod(f"claiming-{claimed.split()[0]}", **{GPU: "1"})
    made["spec"]["resourceClaims"] = [{"name": "it", "resourceClaimTemplateName": "nic"}]
    assert create(lodging, made, dry=False, user=TENANT).taken

    def give(live: Json) -> None:
        live["status"].update(copy.deepcopy(STATUSES[claimed]))

    said = edit(lodging, made, give, subresource="/status", user=TENANT)
    assert said.status == 403, said.text
    assert "only a scheduler may" in said.text
    given = edit(lodging, made, give, subresource="/status", user=SCHEDULER)
    assert given.taken, given.text
    assert STATUSES[claimed].keys() <= read(lodging, made)["status"].keys()

    def run(live: Json) -> None:
        live["status"]["phase"] = "Running"

    assert edit(lodging, made, run, subresource="/status", user=TENANT).taken


def test_a_resize_is_judged(lodging: httpx.Client) -> None:
    sized = pod("sized", **{GPU: "1"})
    assert create(lodging, sized, dry=False).taken

    def grow(live: Json) -> None:
        resources = live["spec"]["containers"][0]["resources"]
        resources["limits"]["memory"] = resources["requests"]["memory"] = "2Gi"

    def burst(live: Json) -> None:
        live["spec"]["containers"][0]["resources"]["limits"]["memory"] = "4Gi"

    assert edit(lodging, sized, grow, subresource="/resize").rules == frozenset()
    said = edit(lodging, sized, burst, subresource="/resize")
    assert (said.taken, said.rules) == (True, {"GPU050"})


OLD = "2020-01-01T00:00:00Z"


def entry(manager: str, **more: Any) -> Json:
    fields = {"f:spec": {"f:paused": {}}}
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "apps/v1",
        "time": OLD,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


def _all_old(live: Json) -> list[Json]:
    return [{**each, "time": OLD} for each in live["metadata"]["managedFields"]]


def _without_times(live: Json) -> list[Json]:
    listed = copy.deepcopy(live["metadata"]["managedFields"])
    for each in listed:
        # The API server adds no time to a managedFields entry that was written without a time.
        each.pop("time", None)
    return [each for each in listed if isinstance(each, dict)]


FORGERIES: dict[str, Callable[[Json], list[Json]]] = {
    "untouched": lambda live: live["metadata"]["managedFields"],
    "emptied": lambda live: [{}],
    "no entry": lambda live: [],
    "another manager": lambda live: [entry("other")],
    "the same manager": lambda live: [entry("forger")],
    "a manager of applies": lambda live: [entry("forger", operation="Apply")],
    "a manager of a subresource": lambda live: [entry("forger", subresource="status")],
    "an unknown version": lambda live: [entry("forger", apiVersion="apps/v9")],
    "all old": _all_old,
    "without times": _without_times,
    "fifty managers": lambda live: [entry(f"manager-{index}") for index in range(50)],
}


def _twice(live: Json) -> None:
    """Set an environment variable twice: managedFields can't describe lists with equal keys."""
    live["spec"]["template"]["spec"]["containers"][0]["env"] = 2 * [{"name": "A", "value": "1"}]


def _unnamed(live: Json) -> None:
    live["spec"]["template"]["spec"]["imagePullSecrets"] = [{}, {}]


def _image(live: Json) -> None:
    container = live["spec"]["template"]["spec"]["containers"][0]
    container["image"] = f"{container['image']}1"


CHANGES: dict[str, Change] = {"image": _image, "duplicates": _twice, "unnamed": _unnamed}


def deployment(name: str, **annotations: str) -> Json:
    labels = {"app": "a"}
    template = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": pod("")["spec"],
    }
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {**spec, "strategy": {"type": "Recreate"}},
    }


@pytest.fixture(scope="module")
def dated(lodging: httpx.Client) -> Iterator[httpx.Client]:
    """Install a policy whose warning shows the date that the policies compare exemptions with."""
    group = "admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["deployments"],
    }
    names = ("before", "stamps", "today")
    variables = [{"name": name, "expression": VARIABLES[name]} for name in names]
    said = {"expression": "false", "messageExpression": f'"{TODAY_SEEN}" + variables.today'}
    policy = {
        "apiVersion": group,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "test-today"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "variables": variables,
            "validations": [said],
        },
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": SPACE}}
    binding = {
        "apiVersion": group,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "test-today"},
        "spec": {
            "policyName": "test-today",
            "validationActions": ["Warn"],
            "matchResources": {"namespaceSelector": selector},
        },
    }
    apply(lodging, policy)
    apply(lodging, binding)
    probe = deployment("probe")
    await_true("the day is shown", lambda: TODAY_SEEN in create(lodging, probe).text)
    yield lodging
    delete(lodging, binding)
    delete(lodging, policy)


def day_seen(said: Answer) -> str:
    assert said.taken, said.text
    (line,) = [line for line in said.text.splitlines() if TODAY_SEEN in line]
    return line.partition(TODAY_SEEN)[2][:10]


def day() -> str:
    return datetime.now(UTC).date().isoformat()


UNKNOWN_DAY = "9999-12-32"


@pytest.mark.promise("No user can move the date by which exemptions end.")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_a_user_writes_into_managed_fields_moves_no_date(
    dated: httpx.Client, forgery: str, change: str
) -> None:
    made = deployment(f"{forgery} {change}".replace(" ", "-"))
    before = day()
    assert day_seen(create(dated, made, dry=False)) in (before, day())

    def forge(live: Json) -> None:
        live["metadata"]["managedFields"] = FORGERIES[forgery](live)
        CHANGES[change](live)
        _image(live)

    # Update twice: the second update starts from the managedFields that the first update has left.
    for _ in range(2):
        before = day()
        seen = day_seen(edit(dated, made, forge, subresource="?fieldManager=forger", user=TENANT))
        assert seen in (before, day(), UNKNOWN_DAY)


@pytest.mark.promise("No user can move the date by which exemptions end.")
def test_a_second_update_within_a_second_moves_no_date(dated: httpx.Client) -> None:
    made = deployment("twice")
    create(dated, made, dry=False)

    def forge(live: Json) -> None:
        # The API server leaves its own entry as it is: with the same fields, in the same second.
        entries = live["metadata"]["managedFields"]
        invented = entry(f"manager-{live['metadata']['resourceVersion']}")
        invented["fieldsV1"] = {"f:spec": {"f:replicas": {}}}
        live["metadata"]["managedFields"] = [*entries, invented]
        _image(live)

    # Of so many updates, some fall into one second.
    for _ in range(20):
        before = day()
        seen = day_seen(edit(dated, made, forge, subresource="?fieldManager=forger", user=TENANT))
        assert seen in (before, day())


@pytest.mark.promise("No user can move the date by which exemptions end.")
def test_without_a_date_no_exemption_holds(lodging: httpx.Client) -> None:
    exempt = deployment("exempt", **{f"{PREFIX}GPU032": f"{LATEST} it watches the nodes"})
    exempt["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    said = create(lodging, exempt, dry=False, user=TENANT)
    assert said.taken, said.text

    def forge(live: Json) -> None:
        live["metadata"]["managedFields"] = [{}]
        _image(live)

    refused = edit(lodging, exempt, forge, user=TENANT)
    assert (refused.status, refused.rules) == (403, {"GPU032", "GPU062"})

    def other(live: Json) -> None:
        live["spec"]["template"]["spec"]["containers"][0]["command"] = ["b"]

    assert edit(lodging, exempt, other, user=TENANT).taken
