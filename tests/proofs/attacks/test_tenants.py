"""Attack: a tenant exempts objects from policies, edits pods later, or forges an owner."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from gpu_rules.admission import OPT_OUT, Enforcement, grants, manifests
from gpu_rules.rules import Context, Severity, evaluate
from gpu_rules.rules.exemptions import GRANT, PREFIX
from lab.benchmarks.api_server import await_true
from tests.policies.admission.cluster import (
    DAEMON_SET_CONTROLLER,
    EVERYTHING,
    GPU,
    LABEL,
    LATEST,
    Answer,
    acting_as,
    answer,
    apply,
    create,
    delete,
    edit,
    install,
)

SPACE, TENANT, OFFICER = "tenant", "tenant", "officer"
PLUGIN = "nvdp-nvidia-device-plugin"
"""A DaemonSet of a release that the stack adopted in the tenant's namespace."""
CONTEXT = Context(
    pools=EVERYTHING.pools[:1],
    platform="device-plugin",
    daemon_sets=frozenset({f"{SPACE}/nvdp", f"{SPACE}/nvdp-*"}),
)
TRUSTED = "gpu-system"
"""A namespace that the settings of the rules trust, and that doesn't exist yet."""
TRUSTING = replace(CONTEXT, infrastructure_namespaces=frozenset({TRUSTED}))
DENY = Enforcement({Severity.MANDATORY: ["Deny", "Audit"], Severity.ADVISORY: ["Warn", "Audit"]})
ANYWHERE = {"operator": "Exists"}
Json = dict[str, Any]


def pod(name: str = "train", **metadata: Any) -> Json:
    limits = {"memory": "1Gi"}
    resources = {"limits": limits, "requests": {"cpu": "1", "memory": "1Gi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": SPACE, **metadata},
        "spec": {"containers": [{"name": "a", "image": "a:1", "resources": resources}]},
    }


def tolerant(**metadata: Any) -> Json:
    made = pod(**metadata)
    made["spec"]["tolerations"] = [ANYWHERE]
    return made


def _role(user: str, *rules: Json) -> list[Json]:
    api, name = "rbac.authorization.k8s.io/v1", f"test-{user}"
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    ref = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    return [
        {
            "apiVersion": api,
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": list(rules),
        },
        {
            "apiVersion": api,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "subjects": [subject],
            "roleRef": ref,
        },
    ]


NAMESPACES = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["*"]}
DAEMON_SETS = {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["*"]}
MAY_GRANT = {
    "apiGroups": ["guardrails.gpu-cluster"],
    "resources": ["exemptions"],
    "verbs": ["grant"],
}


@pytest.fixture(scope="module")
def tenants(api: httpx.Client) -> Iterator[httpx.Client]:
    """Install policies that deny violations in the tenant's namespace.

    Let two users edit namespaces.
    """
    install(api, SPACE, CONTEXT, DENY)
    for role in (
        *_role(TENANT, NAMESPACES, DAEMON_SETS),
        *_role(OFFICER, NAMESPACES, DAEMON_SETS, MAY_GRANT),
    ):
        apply(api, role)
    guard = [
        manifest
        for manifest in manifests(TRUSTING, DENY)
        if manifest["metadata"]["name"] == grants.NAME
    ]
    for manifest in guard:
        apply(api, manifest)
    probe = space("probe", labels={OPT_OUT: "exempt"})
    await_true("grants guarded", lambda: create(api, probe, user=TENANT).status == 403)
    yield api
    delete(api, guard[1])


def space(name: str = SPACE, **metadata: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def annotate(api: httpx.Client, user: str = "", **annotations: str | None) -> Answer:
    """Set annotations of the tenant's namespace; the value None deletes an annotation."""
    return answer(
        api.patch(
            f"/api/v1/namespaces/{SPACE}",
            json={"metadata": {"annotations": annotations}},
            headers={"content-type": "application/merge-patch+json", **acting_as(user)},
        )
    )


def label_space(api: httpx.Client, value: str | None) -> None:
    """Set or delete the label that exempts the tenant's namespace from the policies."""
    said = api.patch(
        f"/api/v1/namespaces/{SPACE}",
        json={"metadata": {"labels": {OPT_OUT: value}}},
        headers={"content-type": "application/merge-patch+json"},
    )
    assert said.status_code == 200, said.text


EXEMPT = {f"{PREFIX}GPU032": f"{LATEST} it watches the nodes"}
GRANTED = f"{GRANT}GPU032"


@pytest.mark.parametrize(
    ("grant", "holds"),
    [
        (f"{LATEST} agreed", True),
        (None, False),
        ("2030-12-30 a day less", False),
        (LATEST, False),
        ("2030-13-31 no day", False),
        ("always", False),
    ],
)
def test_an_exemption_holds_where_the_namespace_grants_it_and_no_longer(
    tenants: httpx.Client, grant: str | None, holds: bool
) -> None:
    assert annotate(tenants, **{GRANTED: grant}).taken
    wanted = frozenset() if holds else {"GPU032", "GPU062"}

    def said() -> bool:  # Admission policies see a changed namespace only after a short delay.
        return create(tenants, tolerant(annotations=EXEMPT)).rules == wanted

    try:
        await_true(f"{grant}: {wanted}", said, seconds=20)
    finally:
        annotate(tenants, **{GRANTED: f"{LATEST} for tests"})


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {OPT_OUT: "exempt"}},
        {"annotations": {f"{GRANT}GPU022": f"{LATEST} why"}},
        {"annotations": {f"{PREFIX}GPU060": f"{LATEST} why"}},
    ],
)
def test_only_who_may_grant_lifts_rules_from_a_namespace(
    tenants: httpx.Client, metadata: Json
) -> None:
    lifted = space("lifted", **metadata)
    said = create(tenants, lifted, user=TENANT)
    assert said.status == 403
    assert "exemptions.guardrails.gpu-cluster" in said.text
    assert create(tenants, space("plain"), user=TENANT).taken
    assert create(tenants, lifted, user=OFFICER).taken
    assert create(tenants, lifted).taken

    def lift(live: Json) -> None:
        for key, more in copy.deepcopy(metadata).items():
            live["metadata"][key] = {**live["metadata"].get(key, {}), **more, "by": "test"}
        live["metadata"].get("annotations", {}).update(
            {key: f"{value} and more" for key, value in metadata.get("annotations", {}).items()}
        )

    assert edit(tenants, space(), lift, user=TENANT).status == 403


WELL_KNOWN = ("gpu-operator", "nvidia-gpu-operator", "nvidia-device-plugin", "monitoring")


@pytest.mark.parametrize("name", WELL_KNOWN)
def test_the_name_of_gpu_software_makes_no_namespace_trusted(
    tenants: httpx.Client, name: str
) -> None:
    """The stack declares none of these namespaces, so a tenant's namespace has the rules."""
    assert create(tenants, space(name, labels={LABEL: SPACE}), dry=False, user=TENANT).taken
    made = tolerant(namespace=name)
    made["spec"]["containers"][0] |= {
        "securityContext": {"privileged": True},
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
    }
    made["spec"]["volumes"] = [{"name": "gpu", "hostPath": {"path": "/dev/nvidia0"}}]
    refused = {"GPU017", "GPU032", "GPU036"}
    # Admission policies see a new namespace only after a short delay.
    await_true(name, lambda: create(tenants, made).rules >= refused, seconds=20)
    assert {broken.rule.id for broken in evaluate(made, CONTEXT)} >= refused


def test_only_who_may_grant_makes_a_namespace_that_the_settings_trust(
    tenants: httpx.Client,
) -> None:
    said = create(tenants, space(TRUSTED), user=TENANT)
    assert said.status == 403
    assert "exemptions.guardrails.gpu-cluster" in said.text
    assert create(tenants, space(f"{TRUSTED}-2"), user=TENANT).taken
    assert create(tenants, space(TRUSTED), user=OFFICER).taken


def seeing_all(name: str) -> Json:
    """Return a DaemonSet whose pods see all GPUs of their node."""
    see = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    labels = {"app": name}
    spec = pod()["spec"]
    spec["containers"][0] |= see
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def pod_of(daemon_set: Json) -> Json:
    name = daemon_set["metadata"]["name"]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": "0"}
    made = pod(ownerReferences=[{**owner, "controller": True}])
    return {**made, "spec": daemon_set["spec"]["template"]["spec"]}


def test_an_adopted_daemon_set_is_trusted_among_those_of_tenants(tenants: httpx.Client) -> None:
    plugin, other = seeing_all(PLUGIN), seeing_all("nvd")
    assert create(tenants, pod_of(plugin), user=DAEMON_SET_CONTROLLER).rules == frozenset()
    assert create(tenants, pod_of(plugin)).rules == {"GPU017"}, "anybody can write an owner"
    assert create(tenants, pod_of(other), user=DAEMON_SET_CONTROLLER).rules == {"GPU017"}
    assert create(tenants, other, user=TENANT).rules == {"GPU017"}


def test_only_who_may_grant_writes_an_adopted_daemon_set(tenants: httpx.Client) -> None:
    plugin = seeing_all(PLUGIN)
    said = create(tenants, plugin, user=TENANT)
    assert said.status == 403
    assert "exemptions.guardrails.gpu-cluster" in said.text
    assert create(tenants, plugin, dry=False, user=OFFICER).taken

    def replace_image(live: Json) -> None:
        live["spec"]["template"]["spec"]["containers"][0]["image"] = "miner:1"

    def label(live: Json) -> None:
        live["metadata"]["labels"] = {"edited": "true"}

    try:
        assert edit(tenants, plugin, replace_image, user=TENANT).status == 403
        assert edit(tenants, plugin, label, user=TENANT).taken
        assert edit(tenants, plugin, replace_image, user=OFFICER).taken
    finally:
        delete(tenants, plugin)


def test_a_tenant_edits_the_rest_of_his_namespace_and_gives_up_grants(
    tenants: httpx.Client,
) -> None:
    assert annotate(tenants, TENANT, note="mine").taken
    assert annotate(tenants, TENANT, **{f"{GRANT}GPU001": None}).taken


def test_a_pod_is_judged_anew_where_an_update_changes_what_a_rule_reads(
    tenants: httpx.Client,
) -> None:
    running = pod("running", finalizers=["example.com/wait"])
    assert create(tenants, running, dry=False).taken

    def tolerate(live: Json) -> None:
        live["spec"]["tolerations"] = [*live["spec"].get("tolerations", []), ANYWHERE]

    def exempt(live: Json) -> None:
        live["metadata"]["annotations"] = {f"{PREFIX}GPU032": "for ever"}

    def rename(live: Json) -> None:
        live["metadata"]["labels"] = {"edited": "true"}
        live["spec"]["containers"][0]["image"] = "a:2"

    assert edit(tenants, running, tolerate).rules == {"GPU032"}
    assert edit(tenants, running, exempt).rules == {"GPU062"}
    assert edit(tenants, running, rename).taken
    release(tenants, running)


def release(api: httpx.Client, manifest: Json) -> None:
    """Delete an object for good: also remove its finalizers."""

    def free(live: Json) -> None:
        live["metadata"]["finalizers"] = []

    delete(api, manifest)
    assert edit(api, manifest, free).taken


def test_a_pod_from_before_that_breaks_rules_ends_and_stays_editable(
    tenants: httpx.Client,
) -> None:
    old = tolerant(name="old", finalizers=["example.com/wait"])
    label_space(tenants, "exempt")
    try:
        await_true("let through", lambda: create(tenants, old).taken)
        assert create(tenants, old, dry=False).taken
    finally:
        label_space(tenants, None)
    await_true("judged again", lambda: create(tenants, tolerant()).status == 403)

    def label(live: Json) -> None:
        live["metadata"]["labels"] = {"edited": "true"}
        live["metadata"]["annotations"] = {"note": "x"}

    assert edit(tenants, old, label).taken
    release(tenants, old)


def test_an_owner_that_anybody_wrote_makes_no_pod_of_a_daemon_set(tenants: httpx.Client) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "a", "uid": "0"}
    made = tolerant(ownerReferences=[{**owner, "controller": True}])
    assert create(tenants, made).rules == {"GPU032"}
    assert create(tenants, made, user=DAEMON_SET_CONTROLLER).rules == frozenset()
    assert GPU not in str(made)
