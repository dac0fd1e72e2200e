"""A pod that claims devices (DRA) is a pod with GPUs, for all rules and in each way to ask."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import yaml

from gpu_rules import reference
from gpu_rules.rules import EXAMPLES, RULES, Context, NodeTaint, PoolFacts
from gpu_rules.rules.resource_names import BY_CLASS
from gpu_rules.rules.unknown import UNKNOWN
from tests.policies.rules.messages import judge, judge_stack

GPU = "nvidia.com/gpu"
TEMPLATE = "resourceClaimTemplateName"
POOL = PoolFacts(
    "a100", 8, (NodeTaint(GPU),), {"gpu": "a100"}, nodes=1, node_names=frozenset({"gpu-1"})
)

CONTEXT = Context(pools=(POOL,), platform="dra", max_gpus_per_pod=8)

NAMES_A_RESOURCE = {
    **dict.fromkeys(
        ("GPU001", "GPU002", "GPU003", "GPU008", "GPU009", "GPU010", "GPU011", "GPU014"),
        "about the amount or the name of a resource",
    ),
    "GPU012": "about a LimitRange, which counts resources alone",
    "GPU013": "about the quota's key of a resource",
    "GPU015": "about what a platform offers",
    "GPU018": "about vcuda",
    "GPU020": "about annotations, not requests",
    "GPU021": "about two device plugins",
    "GPU027": "about the name of a resource",
    "GPU028": "its cap for one container counts resources; GPU065 caps claims",
    "GPU029": "its quota is on a resource; the test below has the claims'",
    "GPU037": "claims need no RuntimeClass",
    "GPU085": "about nodes of a pool, which have no claims",
    "GPU041": "its quota is on a resource; the test below has the claims'",
    "GPU043": "about the name of a shared GPU",
    "GPU044": "about the name of a MIG device",
    **dict.fromkeys(("GPU061", "GPU080", "GPU081"), "about HAMi's resources"),
}
"""Rules whose example has no counterpart with a claim, by reason."""


def claiming(manifest: Any) -> tuple[Any, list[Any]]:
    """Return a manifest with claims in the place of GPUs under limits, and their templates."""
    made: dict[int, Any] = {}

    def convert(value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                convert(item)
        elif isinstance(value, dict):
            for spec in value.values():
                convert(spec)
            if isinstance(value.get("containers"), list):
                _claim(value, made)

    manifest = copy.deepcopy(manifest)
    convert(manifest)
    return manifest, list(made.values())


def _claim(spec: Any, made: dict[int, Any]) -> None:
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        resources = container.get("resources", {})
        count = resources.get("limits", {}).pop(GPU, None)
        resources.get("requests", {}).pop(GPU, None)
        if not isinstance(count, int) or count < 1:
            continue
        made[count] = template(
            f"claim-{count}", {"deviceClassName": "gpu.nvidia.com", "count": count}
        )
        name = f"c-{container['name']}"
        resources["claims"] = [{"name": name}]
        spec.setdefault("resourceClaims", []).append({"name": name, TEMPLATE: f"claim-{count}"})


def template(name: str, *requests: Any, namespace: str | None = None) -> Any:
    """Return a claim template with the given exact requests."""
    listed = [{"name": f"r{index}", "exactly": one} for index, one in enumerate(requests)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        "spec": {"spec": {"devices": {"requests": listed}}},
    }


def pod(name: str = "one-gpu", **fields: Any) -> Any:
    container = {
        "name": "main",
        "image": "i:1",
        "resources": {
            "requests": {"cpu": 1, "memory": "1Gi"},
            "limits": {"memory": "1Gi"},
            "claims": [{"name": "it"}],
        },
    }
    container |= fields.pop("container", {})
    spec = {
        "tolerations": [{"key": GPU, "operator": "Exists"}],
        "resourceClaims": [{"name": "it", TEMPLATE: name}],
        "containers": [container],
        **fields,
    }
    metadata = {"name": "train", "namespace": "team"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def ids(*manifests: Any, context: Context = CONTEXT) -> list[str]:
    whole = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
    found = [*judge(whole, context), *judge_stack(manifests, context)]
    return sorted({violation.rule.id for violation in found})


BY_GPUS = sorted(
    rule for rule in RULES if f"{GPU}: " in EXAMPLES[rule].failing and rule not in NAMES_A_RESOURCE
)


@pytest.mark.promise("Rules for pods with GPUs hold for pods that claim them (DRA) as well.")
@pytest.mark.parametrize("rule", BY_GPUS)
def test_an_example_is_judged_alike_with_a_claim(rule: str) -> None:
    shown = EXAMPLES[rule]
    context = reference.context_for(shown)
    if context.platform in ("device-plugin", "gpu-manager"):
        context = replace(context, platform="dra")
    for text, expected in ((shown.passing, []), (shown.failing, [rule])):
        manifest, templates = claiming(yaml.safe_load(text))
        assert templates or text is shown.passing
        items = manifest["items"] if manifest["kind"] == "List" else [manifest]
        whole = {"apiVersion": "v1", "kind": "List", "items": [*templates, *items]}
        found = {violation.rule.id for violation in reference.violations(whole, context)}
        assert found == set(expected), text


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"tolerations": []}, "GPU004"),
        ({"nodeName": "gpu-1"}, "GPU016"),
        ({"container": {"securityContext": {"privileged": True}}}, "GPU022"),
        ({"nodeSelector": {"gpu": "none"}}, "GPU034"),
        ({"volumes": [{"name": "a", "hostPath": {"path": "/dev"}}], "tolerations": []}, "GPU036"),
        ({"hostPID": True}, "GPU067"),
        ({"container": {"image": "i:latest"}}, "GPU051"),
        ({"container": {"resources": {"claims": [{"name": "it"}]}}}, "GPU050"),
    ],
)
def test_a_claim_counts_as_gpus_whose_manifest_nobody_shows(fields: Any, rule: str) -> None:
    assert rule in ids(pod("train-devices", **fields))


@pytest.mark.parametrize("name", ["nic", "rdma-nic", "two-nics", "net", "sriov-vf", "cpus", "tpu"])
def test_a_claim_by_the_name_of_another_device_excuses_from_no_rule(name: str) -> None:
    assert ids(pod(name, tolerations=[])) == []
    assert ids(pod(name)) == ["GPU032"]
    assert "GPU063" in ids(pod(name, tolerations=[], runtimeClassName="nvidia"))
    assert {"GPU016", "GPU064"} <= set(ids(pod(name, tolerations=[], nodeName="gpu-1")))
    bad = {"tolerations": [], "container": {"securityContext": {"privileged": True}}}
    assert "GPU022" in ids(pod(name, **bad))
    assert "GPU022" in ids(pod(f"gpu-and-{name}", **bad))
    assert "GPU022" in ids(pod("x".join(["", *name.split("-"), ""]), **bad))
    assert "GPU077" in ids(template(name, {"deviceClassName": "gpu.nvidia.com"}))
    assert ids(template(name, {"deviceClassName": "nic.example.com"})) == []


def test_what_the_settings_and_the_manifests_say_of_a_claim_counts() -> None:
    bad = {"tolerations": [], "container": {"securityContext": {"privileged": True}}}
    listed = replace(CONTEXT, other_claims=frozenset({"odd"}))
    assert ids(pod("odd", **bad), context=listed) == []
    assert ids(pod("odd"), context=listed) == ["GPU032"], "without GPUs"
    shown = template("odd", {"deviceClassName": "nic.example.com"}, namespace="team")
    assert ids(shown, pod("odd", **bad)) == []
    unclear = template("odd", {"deviceClassName": "dsp.example.com"}, namespace="team")
    assert "GPU022" in ids(unclear, pod("odd", **bad))
    later = template("odd", {"deviceClassName": UNKNOWN}, namespace="team")
    assert "GPU032" not in ids(later, pod("odd"))
    elsewhere = template("odd", {"deviceClassName": "nic.example.com"}, namespace="other")
    assert "GPU022" in ids(elsewhere, pod("odd", **bad))
    hidden = template("nic", {"deviceClassName": "gpu.nvidia.com"}, namespace="team")
    assert {"GPU022", "GPU077"} <= set(ids(hidden, pod("nic", **bad)))


@pytest.mark.parametrize(
    ("uses", "several"),
    [
        ([{"name": "it"}], True),
        ([{"name": "it", "request": "r0"}], False),
        ([{"name": "it", "request": "r0"}, {"name": "other"}], False),
        ([{"name": "other"}], False),
        ([{"name": "other"}, {"name": "channel"}], False),
        ([], False),
    ],
)
def test_a_container_has_the_gpus_of_the_whole_claims_that_it_uses(
    uses: Any, several: bool
) -> None:
    one = {"deviceClassName": "gpu.nvidia.com"}
    shown = [
        template("two", one, one, namespace="team"),
        template("one", one, namespace="team"),
        template("imex", {"deviceClassName": "imex.nvidia.com"}, namespace="team"),
    ]
    made = {"it": "two", "other": "one", "channel": "imex"}
    claims = [{"name": name, TEMPLATE: template_name} for name, template_name in made.items()]
    asked = pod(resourceClaims=claims)
    asked["spec"]["containers"][0]["resources"]["claims"] = uses
    assert ("GPU049" in ids(*shown, asked)) == several


def daemon_set(name: str) -> Any:
    asked = pod(name)
    spec = {"template": {"metadata": {}, "spec": asked["spec"]}}
    return {**asked, "apiVersion": "apps/v1", "kind": "DaemonSet", "spec": spec}


def test_a_daemon_set_that_sees_gpus_of_others_holds_none() -> None:
    watched = {"deviceClassName": "gpu.nvidia.com", "adminAccess": True}
    held = {"deviceClassName": "gpu.nvidia.com"}
    for requests, holds in (([watched], False), ([watched, held], True), ([held], True)):
        shown = template("gpus", *requests, namespace="team")
        assert ("GPU024" in ids(shown, daemon_set("gpus"))) == holds
    assert "GPU024" in ids(daemon_set("gpus"))


def privileged_levels(*shown: Any, context: Context | None = None) -> list[str]:
    """Return the severities of GPU022 for a privileged DaemonSet with a claim."""
    agent = daemon_set("gpus")
    agent["spec"]["template"]["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    listed = {"apiVersion": "v1", "kind": "List", "items": [*shown, agent]}
    found = judge(listed, context or Context())
    return [str(each.severity) for each in found if each.rule.id == "GPU022"]


def test_an_agent_that_only_sees_gpus_of_others_may_be_privileged_until_a_cluster_is_declared() -> (
    None
):
    watched = {"deviceClassName": "gpu.nvidia.com", "adminAccess": True}
    held = {"deviceClassName": "gpu.nvidia.com"}
    assert privileged_levels(template("gpus", watched, namespace="team")) == ["advisory"]
    assert privileged_levels(template("gpus", watched, held, namespace="team")) == ["mandatory"]
    assert privileged_levels() == ["mandatory"]
    shown = template("gpus", watched, namespace="team")
    assert privileged_levels(shown, context=CONTEXT) == ["mandatory"]


def test_a_class_of_network_devices_gives_no_gpus() -> None:
    shown = template("two-netdev", {"deviceClassName": "netdev.google.com"}, namespace="team")
    bad = {"container": {"securityContext": {"privileged": True}}}
    assert "GPU022" not in ids(shown, pod("two-netdev", **bad))


def test_a_claim_of_an_api_that_is_gone_is_known_by_its_name_alone() -> None:
    old = {
        "apiVersion": "resource.k8s.io/v1alpha2",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one", "namespace": "team"},
        "spec": {"spec": {"resourceClassName": "gpu.nvidia.com"}},
    }
    assert "GPU051" in ids(old, pod("one", container={"image": "i:latest"}))


def test_a_claim_of_a_compute_domain_is_none_for_gpus() -> None:
    domain = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": "d", "namespace": "team"},
        "spec": {"numNodes": 1, "channel": {"resourceClaimTemplate": {"name": "odd"}}},
    }
    bad = pod("odd", tolerations=[], container={"securityContext": {"privileged": True}})
    assert "GPU022" in ids(bad)
    assert ids(domain, bad) == []
    assert "GPU022" in ids({**domain, "metadata": {"name": "d", "namespace": "other"}}, bad)


DEVICE_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "fast"},
    "spec": {
        "extendedResourceName": "example.com/fast",
        "selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}],
    },
}


@pytest.mark.parametrize("resource", ["deviceclass.resource.kubernetes.io/gpu.nvidia.com"])
def test_a_resource_of_a_device_class_is_one_of_gpus(resource: str) -> None:
    asked = pod(container={"resources": {"limits": {resource: 1}}}, tolerations=[], hostPID=True)
    del asked["spec"]["resourceClaims"]
    assert {"GPU004", "GPU050", "GPU067"} <= set(ids(asked))


def test_a_device_class_tells_its_resource_and_its_claims() -> None:
    asked = pod(container={"resources": {"limits": {"example.com/fast": 1}}}, hostPID=True)
    del asked["spec"]["resourceClaims"]
    assert "GPU067" not in ids(asked)
    assert "GPU067" in ids(DEVICE_CLASS, asked)
    known = template("nic", {"deviceClassName": "fast"}, namespace="team")
    assert "GPU032" not in ids(DEVICE_CLASS, known, pod("nic"))
    assert "GPU032" in ids(pod("nic"))


@pytest.mark.parametrize("runtime", ["", "nvidia"])
def test_a_claim_needs_no_runtime_class_and_gets_none_of_nvidia(runtime: str) -> None:
    known = template("one-gpu", {"deviceClassName": "gpu.nvidia.com"}, namespace="team")
    default = replace(CONTEXT, runtime_class=runtime)
    for shown in ([], [known]):
        assert ids(*shown, pod("one-gpu"), context=default) == []
        bad = pod("one-gpu", runtimeClassName="nvidia")
        assert ids(*shown, bad, context=default) == ["GPU063"]


@pytest.mark.parametrize("name", ["fast", "h100", "accelerator.example.com", "gpu.nvidia.com"])
def test_a_cap_counts_the_devices_of_each_class_that_may_have_gpus(name: str) -> None:
    assert ids(template("a", {"deviceClassName": name, "count": 8})) == []
    assert ids(template("a", {"deviceClassName": name, "count": 9})) == ["GPU065"]
    assert ids(template("my-nic", {"deviceClassName": name})) == ["GPU077"]
    asked = pod(container={"resources": {"limits": {f"{BY_CLASS}{name}": 1}}})
    del asked["spec"]["resourceClaims"]
    assert "GPU070" in ids(asked)
    made = {"uid": "0", "annotations": {"resource.kubernetes.io/pod-claim-name": "it"}}
    claim = template("my-nic-it-x7x2k", {"deviceClassName": name})
    claim |= {"kind": "ResourceClaim", "spec": claim["spec"]["spec"]}
    assert ids(claim) == ["GPU077"]
    stored = {**claim, "metadata": {**claim["metadata"], **made}}
    assert ids(stored) == ["GPU077"], "somebody wrote a uid"
    assert ids(stored, context=replace(CONTEXT, observed=True)) == [], "made by a controller"
    listed = replace(CONTEXT, other_claims=frozenset({name}))
    many = template("a", {"deviceClassName": name, "count": 9})
    assert ids(many, context=listed) == ([] if name != "gpu.nvidia.com" else ["GPU065"])


@pytest.mark.parametrize(
    ("templates", "caps", "refused"),
    [
        (["one"], (None, 8), False),
        (["one", "nic"], (None, 8), False),
        (["one", "other"], (None, 8), True),
        (["one", "other"], (4, 8), False),
        (["one", "other", "third"], (4, 8), True),
    ],
)
def test_claims_that_nobody_shows_count_with_the_most_that_they_can_have(
    templates: list[str], caps: tuple[int | None, int], refused: bool
) -> None:
    capped = replace(CONTEXT, max_gpus_per_container=caps[0], max_gpus_per_pod=caps[1])
    claims = [{"name": f"c{number}", TEMPLATE: name} for number, name in enumerate(templates)]
    asked = pod(resourceClaims=claims, container={"resources": {}})
    assert ("GPU028" in ids(asked, context=capped)) == refused
    shown = [
        template(name, {"deviceClassName": "gpu.nvidia.com"}, namespace="team")
        for name in templates
        if name != "nic"
    ]
    assert "GPU028" not in ids(*shown, asked, context=capped)


def test_channels_between_nodes_are_no_gpus() -> None:
    # NVIDIA/k8s-dra-driver-gpu demo/specs/imex
    for name in ("imex.nvidia.com", "compute-domain-default-channel.nvidia.com"):
        many = template("a", *[{"deviceClassName": name, "count": 8}] * 4, namespace="team")
        team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
        selector = {"cel": {"expression": "device.driver == 'compute-domain.nvidia.com'"}}
        device_class = {
            **DEVICE_CLASS,
            "metadata": {"name": name},
            "spec": {"selectors": [selector]},
        }
        assert not {"GPU029", "GPU065"} & set(ids(device_class, team, many))


def test_a_count_of_0_is_1_as_for_the_api_server() -> None:
    few = template("a", *[{"deviceClassName": "gpu.nvidia.com", "count": 0}] * 8)
    many = template("a", *[{"deviceClassName": "gpu.nvidia.com", "count": 0}] * 9)
    assert (ids(few), ids(many)) == ([], ["GPU065"])


def test_a_claim_of_an_older_kubernetes_is_one_for_gpus() -> None:
    # NVIDIA/k8s-dra-driver-gpu demo/specs/selectors/claims.yaml
    old = {
        "apiVersion": "resource.k8s.io/v1alpha2",
        "kind": "ResourceClaim",
        "metadata": {"name": "rdma-nic"},
        "spec": {"resourceClassName": "gpu.nvidia.com"},
    }
    assert ids(old) == ["GPU077"]
    assert ids({**old, "spec": {"resourceClassName": "nic.example.com"}}) == []


def test_a_cap_counts_all_requests_of_a_claim_and_all_claims_of_a_pod() -> None:
    many = template("a", *[{"deviceClassName": "gpu.nvidia.com", "count": 8}] * 4)
    assert ids(many) == ["GPU065"]
    nics = template("a", *[{"deviceClassName": "nic.example.com", "count": 8}] * 4)
    assert ids(nics) == []
    few = template("few", {"deviceClassName": "gpu.nvidia.com", "count": 5}, namespace="team")
    both = [{"name": "it", TEMPLATE: "few"}, {"name": "other", TEMPLATE: "few"}]
    assert {"GPU007", "GPU028"} <= set(ids(few, pod(resourceClaims=both)))
    alternatives = {
        "name": "a",
        "firstAvailable": [
            {"name": name, "deviceClassName": "gpu.nvidia.com", "count": 8} for name in "ab"
        ],
    }
    one_of = template("a")
    one_of["spec"]["spec"]["devices"]["requests"] = [alternatives]
    assert ids(one_of) == []


def test_claims_count_against_the_quota_of_their_class() -> None:
    quota: Any = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "team"},
        "spec": {"hard": {"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": 4}},
    }
    five = template("five", {"deviceClassName": "gpu.nvidia.com", "count": 5}, namespace="team")
    assert ids(quota, five, pod("five", hostIPC=True)) == ["GPU041", "GPU067"]
    quota["spec"]["hard"] = {"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": 5}
    assert ids(quota, five, pod("five", hostIPC=True)) == ["GPU067"]


def test_a_claim_needs_a_driver() -> None:
    for platform in ("device-plugin", "gpu-manager"):
        known = replace(CONTEXT, platform=platform)
        assert ids(pod("one-gpu"), context=known) == ["GPU015"]
        assert ids(pod("unclear"), context=known) == []
        served = replace(known, resource_names=frozenset({"gpu.nvidia.com"}))
        assert ids(pod("one-gpu"), context=served) == []
    assert ids(pod("one-gpu")) == []
