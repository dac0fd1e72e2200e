"""With denying policies, the API server accepts node agents and rejects privileged GPU pods.

Node agents are DaemonSets without GPUs, such as log collectors. If the environment variable
`AGENT_CHARTS` names a folder with Helm charts of agents, the tests also send the objects that these
charts render, with the values of a file `<chart>.yaml` beside the chart if there is one. The charts
are not part of this project.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from gpu_cluster_lab import toolchain
from gpu_rules import charts
from gpu_rules.admission import Enforcement, manifests
from gpu_rules.parameters import context_by
from gpu_rules.rules import Severity, evaluate
from lab.benchmarks.api_server import await_true, make_namespace, running
from tests.policies.admission.cluster import EVERYTHING, Answer, apply, create
from tests.policies.rules.agents import agent
from tests.proofs.rules import results

ENFORCE = Enforcement({Severity.MANDATORY: ["Deny"], Severity.ADVISORY: ["Warn"]})
SPACE, TRUSTED, EXEMPT = "agents", "trusted", "exempt"
CONTEXT = context_by(
    {
        "exemptions": [
            {
                "rules": ["GPU032", "GPU036"],
                "until": "2030-12-31",
                "reason": "a device plugin of another vendor",
                "namespaces": [f"{SPACE}*"],
                "labels": {"app": "a"},
                "images": ["quay.io/agents/*"],
                "hostPaths": ["/dev/dri*", "/sys"],
            },
            {
                "rules": ["GPU032", "GPU036", "GPU079"],
                "until": "2030-12-31",
                "reason": "node agents of the platform team",
                "namespaces": [EXEMPT],
            },
            {"rules": ["GPU036"], "until": "2020-12-31", "reason": "it is over"},
        ],
        "infrastructureNamespaces": [TRUSTED],
    },
    replace(EVERYTHING, platform="dra", plugin=None, runtime_class=None),
)


@pytest.fixture(scope="module")
def denying() -> Iterator[httpx.Client]:
    """Run an API server whose policies deny objects that break a mandatory rule."""
    with running("agents") as server:
        client = server.client
        for name in (SPACE, TRUSTED, EXEMPT, "other"):
            make_namespace(client, name)
        for manifest in manifests(CONTEXT, ENFORCE):
            apply(client, manifest)
        probe = agent("/dev/nvidia0", namespace="other")
        await_true("policies deny", lambda: create(client, probe).status == 403)
        yield client


def answered(api: httpx.Client, manifest: Any) -> Answer:
    """Send a manifest, and check that policies and Python rules agree on whether to deny it."""
    said = create(api, manifest)
    broken = {v.rule.id for v in evaluate(manifest, CONTEXT) if v.severity is Severity.MANDATORY}
    assert (said.status == 403) == bool(broken), (said.text, broken)
    return said


AGENTS = {
    "metrics": agent("/", "/sys", "/proc", read_only=True, namespace=SPACE),
    "logs": agent("/var/log", "/var/lib/docker/containers", read_only=True, namespace=SPACE),
    "storage": agent("/var/lib/kubelet", "/dev", "/sys", namespace=SPACE),
    "network": agent("/opt/cni/bin", "/etc/cni/net.d", "/run", "/lib/modules", namespace=SPACE),
    "security": agent("/run/containerd/containerd.sock", "/dev", "/proc", namespace=SPACE),
    "privileged": agent("/", namespace=SPACE, securityContext={"privileged": True}),
    "devices by claims": agent("/var/run/cdi", "/var/lib/kubelet/plugins", "/", namespace=SPACE),
    "a vendor's plugin": agent("/dev/dri", "/sys", read_only=True, namespace=SPACE),
}


def placed(manifest: Any, namespace: str) -> Any:
    """Return an object as it is in another namespace."""
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


@pytest.mark.slow
@pytest.mark.promise(
    "Agents of nodes are admitted at `enforce` in namespaces that the stack trusts or exempts; "
    "elsewhere they and privileged pods with GPUs are not."
)
@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_is_admitted_where_the_stack_trusts_its_namespace(
    denying: httpx.Client, name: str
) -> None:
    assert answered(denying, placed(AGENTS[name], TRUSTED)).taken
    assert answered(denying, placed(AGENTS[name], EXEMPT)).taken
    assert answered(denying, placed(AGENTS[name], "other")).status == 403


@pytest.mark.slow
def test_an_exemption_holds_where_each_part_of_it_matches(denying: httpx.Client) -> None:
    assert answered(denying, agent("/dev/dri", "/sys", namespace=SPACE)).taken


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"namespace": "other"},
        {"image": "docker.io/agents/a:1"},
        {"paths": ("/dev/dri", "/data")},
        {"paths": ("/dev/nvidia0",)},
    ],
)
def test_an_exemption_holds_for_nothing_else(denying: httpx.Client, given: Any) -> None:
    paths = given.pop("paths", ("/dev/dri", "/sys"))
    manifest = agent(*paths, **{"namespace": SPACE, **given})
    assert answered(denying, manifest).rules == {"GPU032", "GPU036"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["DaemonSet", "Deployment"])
@pytest.mark.parametrize("asked", ["limits", "claims"])
def test_a_privileged_pod_with_gpus_is_refused(
    denying: httpx.Client, kind: str, asked: str
) -> None:
    resources: Any = {"claims": [{"name": "c"}]} if asked == "claims" else {"limits": {}}
    if asked == "limits":
        resources["limits"]["amd.com/gpu"] = 1
    manifest = copy.deepcopy(
        agent(kind=kind, namespace=SPACE, resources=resources, securityContext={"privileged": True})
    )
    if asked == "claims":
        claims = [{"name": "c", "resourceClaimTemplateName": "one"}]
        manifest["spec"]["template"]["spec"]["resourceClaims"] = claims
    assert "GPU022" in answered(denying, manifest).rules


LEAST_CHARTS = 15
"""Number of charts of node agents that a folder `AGENT_CHARTS` must have."""
UNTRIED = "not tried: AGENT_CHARTS names no folder with charts of node agents"


def real_charts() -> list[Path]:
    folder = os.environ.get("AGENT_CHARTS")
    return sorted(path.parent for path in Path(folder).glob("*/Chart.yaml")) if folder else []


@pytest.fixture(scope="module")
def admitted() -> Iterator[list[str]]:
    """Collect the names of the charts whose objects are admitted, and store their number."""
    names: list[str] = []
    yield names
    results.store("agents", {"agree": len(names), "cases": len(real_charts()), "charts": names})


def values_of(chart: Path) -> Any:
    file = chart.with_name(f"{chart.name}.yaml")
    return yaml.safe_load(file.read_text()) if file.is_file() else {}


def whole_numbers(value: Any) -> Any:
    """Return a rendered object with whole numbers as ints; the provider plugin returns floats."""
    if isinstance(value, Mapping):
        return {key: whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(whole_numbers, value))
    return int(value) if isinstance(value, float) and value.is_integer() else value


@pytest.mark.full
@pytest.mark.skipif(not os.environ.get("AGENT_CHARTS"), reason=UNTRIED)
@pytest.mark.promise("At least 15 charts of real node agents are admitted in trusted namespaces.")
def test_a_folder_of_charts_has_enough_agents() -> None:
    assert len(real_charts()) >= LEAST_CHARTS


@pytest.mark.full
@pytest.mark.skipif(not os.environ.get("AGENT_CHARTS"), reason=UNTRIED)
@pytest.mark.parametrize("chart", real_charts(), ids=lambda path: path.name)
def test_the_chart_of_an_agent_is_admitted_where_policies_deny(
    denying: httpx.Client, admitted: list[str], chart: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = toolchain.ensure(charts.PLUGIN)[charts.PLUGIN]
    monkeypatch.setenv("PATH", f"{tool.path.parent}{os.pathsep}{os.environ['PATH']}")
    release = {"chart": str(chart), "name": "agent", "namespace": TRUSTED}
    rendered = charts.rendered({**release, "values": values_of(chart)})
    sent = [item for item in rendered if item.get("kind") in ("DaemonSet", "Deployment")]
    assert [item for item in sent if item["kind"] == "DaemonSet"]
    for item in sent:
        made = whole_numbers(item)
        for space in (TRUSTED, EXEMPT):
            said = answered(denying, placed(made, space))
            assert said.taken, said.text
        answered(denying, placed(made, "other"))
    admitted.append(chart.name)
