"""Monitoring: alert rules in the real promtool, created objects, and dashboard queries."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.loader import load
from gpu_cluster.monitoring.component import MonitoringArgs
from gpu_cluster.monitoring.values import alert_groups, objects
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster_lab import toolchain
from tests.fixtures.programs import run_program
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import Project, figures
from tests.proofs.platform import ways
from tests.proofs.platform.definitions import defined, definition
from tests.proofs.platform.ways import ALL

Json = dict[str, Any]


def cluster(way: str = "device-plugin", **settings: Any) -> Cluster:
    return load(ways.declared("x", way, monitoring=settings))


def made(way: str, *groups: str, **settings: Any) -> dict[str, Json]:
    desired = resolve(cluster(way, **settings), "x")
    assert desired.monitoring is not None
    args = MonitoringArgs(
        monitoring=desired.monitoring, platform=desired.platform, groups=frozenset(groups)
    )
    return objects(args.monitoring, args.platform, prometheus=args.prometheus)


def rules(way: str) -> Json:
    desired = resolve(cluster(way), "x")
    assert desired.monitoring is not None
    return alert_groups(desired.monitoring, desired.platform)


@pytest.fixture(scope="module")
def promtool() -> Path:
    return toolchain.ensure("promtool")["promtool"].path


def run(promtool: Path, *arguments: str | Path) -> str:
    done = run_program([promtool, *arguments], stderr=subprocess.STDOUT, timeout=60)
    assert done.returncode == 0, done.stdout
    return done.stdout


# Prometheus series with a problem, and the alerts that must fire after half an hour.
CASES: dict[str, tuple[dict[str, str], set[str]]] = {
    "healthy": ({}, set()),
    "hardware-xid": (
        {'DCGM_FI_DEV_XID_ERRORS{Hostname="n",gpu="0"}': "0x20 79x20"},
        {"GpuXidError"},
    ),
    "xid-long-ago": ({'DCGM_FI_DEV_XID_ERRORS{Hostname="n",gpu="0"}': "0x5 79x35"}, set()),
    "program-xid": ({'DCGM_FI_DEV_XID_ERRORS{Hostname="n",gpu="0"}': "0x20 31x20"}, set()),
    "ecc": (
        {'DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{Hostname="n",gpu="0"}': "0x20 1x20"},
        {"GpuEccUncorrectable"},
    ),
    "row-remap": (
        {'DCGM_FI_DEV_ROW_REMAP_FAILURE{Hostname="n",gpu="0"}': "1x40"},
        {"GpuRowRemapFailed"},
    ),
    "hot": ({'DCGM_FI_DEV_GPU_TEMP{Hostname="n",gpu="0"}': "92x40"}, {"GpuHot"}),
    "throttled": (
        {'DCGM_FI_DEV_THERMAL_VIOLATION{Hostname="n",gpu="0"}': "0+1000x40"},
        {"GpuThermalThrottling"},
    ),
    "gpu-gone": (
        {'kube_node_status_allocatable{resource="nvidia_com_gpu",node="gpu-2"}': "7x40"},
        {"GpusBelowDeclared"},
    ),
    "plugin-down": (
        {'kube_daemonset_status_number_unavailable{daemonset="nvidia-device-plugin"}': "1x40"},
        {"GpuPluginDown"},
    ),
    "exporter-down": ({'up{job="dcgm-exporter"}': "0x40"}, {"GpuExporterDown"}),
}

# Prometheus series of a cluster without problems, for which no alert may fire.
HEALTHY = {
    'up{job="dcgm-exporter"}': "1x40",
    **{
        f'kube_node_status_allocatable{{resource="nvidia_com_gpu",node="gpu-{n}"}}': "8x40"
        for n in (1, 2, 3)
    },
}


@pytest.mark.full
def test_the_real_promtool_takes_every_way_s_rules(promtool: Path, tmp_path: Path) -> None:
    for way in ways.WAYS:
        file = tmp_path / f"{way}.yaml"
        file.write_text(yaml.safe_dump(rules(way)))
        count = len(rules(way)["groups"][0]["rules"])
        assert f"SUCCESS: {count} rules found" in run(promtool, "check", "rules", file)


@pytest.mark.full
def test_the_real_promtool_takes_every_expression_of_the_dashboard(
    promtool: Path, tmp_path: Path
) -> None:
    for way in ways.WAYS:
        document = json.loads(made(way)["dashboard"]["data"]["gpu-cluster.json"])
        texts = [target["expr"] for panel in document["panels"] for target in panel["targets"]]
        recorded = [
            {"record": f"panel_{number}", "expr": re.sub(r"\$(\{pool:raw\}|\w+)", "x", text)}
            for number, text in enumerate(texts)
        ]
        file = tmp_path / f"{way}.yaml"
        file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
        assert f"SUCCESS: {len(texts)} rules found" in run(promtool, "check", "rules", file)


@pytest.mark.full
def test_each_alert_is_raised_by_its_fault_and_by_nothing_else(
    promtool: Path, tmp_path: Path
) -> None:
    declared = rules("device-plugin")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(declared))
    names = {rule["alert"] for rule in declared["groups"][0]["rules"]}
    assert names == {name for _, raised in CASES.values() for name in raised}
    cases = []
    for series, raised in CASES.values():
        cases.append(
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": values}
                    for name, values in {**HEALTHY, **series}.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}})',
                        "eval_time": "30m",
                        "exp_samples": [{"labels": "{}", "value": 1}] if name in raised else [],
                    }
                    for name in sorted(names)
                ],
            }
        )
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": cases}))
    assert "SUCCESS" in run(promtool, "test", "rules", file)


@pytest.mark.full
def test_a_share_that_takes_more_memory_than_it_asked_for_is_told(
    promtool: Path, tmp_path: Path
) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules("gpu-manager")))
    pod = 'namespace="a",pod_name="p",container_name="c"'
    used = f'container_gpu_memory_total{{{pod},gpu_memory="total"}}'
    asked = f'container_request_gpu_memory{{{pod},req_of_gpu_memory="total"}}'
    expression = 'count(ALERTS{alertname="GpuShareExceeded",alertstate="firing"})'
    cases = [
        {
            "interval": "1m",
            "input_series": [
                {"series": used, "values": f"{mib}x40"},
                {"series": asked, "values": "5120x40"},
            ],
            "promql_expr_test": [
                {
                    "expr": expression,
                    "eval_time": "30m",
                    "exp_samples": [{"labels": "{}", "value": 1}] if mib > 5120 else [],
                }
            ],
        }
        for mib in (5000, 6000)
    ]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": cases}))
    assert "SUCCESS" in run(promtool, "test", "rules", file)


@pytest.mark.full
@pytest.mark.parametrize("way", ["device-plugin", "gpu-manager", "gpu-operator-preinstalled"])
def test_what_watches_gpus_comes_up_stays_and_goes_without_a_trace(
    project: Project, way: str
) -> None:
    group = "monitoring.coreos.com"
    kinds = ("ServiceMonitor", "PrometheusRule")
    before = snapshot.cluster(project)
    project.write(ways.declared(project.stack, way, monitoring={}))
    try:
        # Without the CRDs of the Prometheus Operator, no such objects are created. The next run
        # with the CRDs creates them.
        assert figures(project.up())[:2] == (ALL, ALL)
        with defined(project, *(definition(group, "v1", kind, "Namespaced") for kind in kinds)):
            assert figures(project.up())[2] > 0
            assert figures(project.up()) == (ALL, ALL, 0)
            _watches(project, made(way, group), group)
            done = project.command("destroy")
            assert done.returncode == 0, done.stdout
    finally:
        project.command("destroy")
    assert snapshot.cluster(project) == before


def _watches(project: Project, expected: dict[str, Json], group: str) -> None:
    for plural, kind, base in (
        ("configmaps", "ConfigMap", ""),
        ("services", "Service", ""),
        ("daemonsets", "DaemonSet", "/apis/apps"),
        ("servicemonitors", "ServiceMonitor", f"/apis/{group}"),
        ("prometheusrules", "PrometheusRule", f"/apis/{group}"),
    ):
        items = project.request("GET", f"namespaces/gpu-monitoring/{plural}", base=base)["items"]
        names = {item["metadata"]["name"] for item in items} - {"kube-root-ca.crt"}
        wanted = {e["metadata"]["name"] for e in expected.values() if e["kind"] == kind}
        assert names == wanted
        if kind == "DaemonSet":
            assert all(item["status"]["numberReady"] == ways.NODES for item in items)
