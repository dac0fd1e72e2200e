"""HAMi on the embedded cluster: shares at admission, in the scheduler, and in what commands say."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gpu_cluster.kubernetes.api import Refused
from gpu_rules.kube.gpu_resources import GPU, HAMI_CORES, HAMI_MEMORY
from tests.proofs.e2e.project import Project, figures
from tests.proofs.platform import ways

Json = dict[str, Any]
LIMIT = 60
LEFT_OUT = {"gpu-3": {"index": [3]}}
PODS = "namespaces/default/pods"


def pod(name: str, limits: Json) -> Json:
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    tolerations = [{"key": GPU, "operator": "Exists"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "tolerations": tolerations},
    }


def decided(project: Project, name: str) -> Json:
    """Return a pod once its scheduler has given it a node, or has said why not."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        item: Json = project.request("GET", f"{PODS}/{name}")
        if item["spec"].get("nodeName") or item["status"].get("conditions"):
            return item
        time.sleep(0.2)
    raise AssertionError(f"no scheduler took {name}")


@pytest.mark.full
def test_a_share_is_admitted_placed_shown_and_limited_by_a_quota(project: Project) -> None:
    declared = ways.declared(project.stack, "hami")
    declared["pools"][1]["unhealthyDevices"] = LEFT_OUT
    declared["runtime"] = {"defaultRuntime": "runc"}
    quota = {"namespace": "default", "resources": {HAMI_MEMORY: 5000}}
    declared["guardrails"] = {"mode": "warn", "quotas": [quota]}
    project.write(declared)
    gpus = ways.ALL - 1
    assert figures(project.up())[:2] == (gpus, gpus)
    names = ("share", "whole")
    try:
        share = {HAMI_MEMORY: "3000", HAMI_CORES: "30"}
        project.request("POST", PODS, body=pod("share", share))
        placed = decided(project, "share")
        assert placed["spec"]["nodeName"]
        assert placed["spec"]["schedulerName"] == "hami-scheduler"
        assert placed["spec"]["runtimeClassName"] == "nvidia"
        with pytest.raises(Refused, match="exceeding resource quota"):
            project.request("POST", PODS, body=pod("two", {GPU: "2", HAMI_MEMORY: "1500"}))
        project.request("POST", PODS, body=pod("whole", {GPU: "1"}))
        assert not decided(project, "whole")["spec"].get("nodeName")
        said = project.command("why", POD="default/whole").stdout
        assert "ResourceQuotaNotFit" in said
        assert "cure: raise the namespace's quota" in said
        held = project.command("who").stdout
        assert f"who: {HAMI_CORES}: 30 of {gpus * 100} held" in held
        assert figures(project.up()) == (gpus, gpus, 0)
    finally:
        for name in names:
            project.request("DELETE", f"{PODS}/{name}", body={"gracePeriodSeconds": 0})
        done = project.command("destroy")
    assert done.returncode == 0, done.stdout
