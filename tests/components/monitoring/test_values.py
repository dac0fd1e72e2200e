"""What monitoring declares: exporter, objects of Prometheus, dashboard."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.loader import load
from gpu_cluster.monitoring.component import MonitoringArgs
from gpu_cluster.monitoring.values import COUNTERS, counters, objects
from gpu_cluster.settings.cluster import Cluster
from gpu_rules.faults import ConfigError
from tests.proofs.platform import ways

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


def test_prometheus_objects_are_made_where_their_definitions_are() -> None:
    kinds = {"service-monitor", "share-monitor", "alerts"}
    assert not kinds & made("gpu-manager").keys()
    assert kinds <= made("gpu-manager", "monitoring.coreos.com").keys()
    assert kinds <= made("gpu-manager", operatorObjects="always").keys()
    never = made("gpu-manager", "monitoring.coreos.com", operatorObjects="never")
    assert not kinds & never.keys()


def test_the_operator_s_own_exporter_is_read_and_no_second_one_made() -> None:
    result = made("gpu-operator-preinstalled", "monitoring.coreos.com")
    assert "exporter" not in result
    spec = result["service-monitor"]["spec"]
    assert spec["selector"]["matchLabels"] == {"app": "nvidia-dcgm-exporter"}
    assert spec["namespaceSelector"]["matchNames"] == ["gpu-operator"]


def test_gpu_manager_is_scraped_at_its_own_path() -> None:
    spec = made("gpu-manager", "monitoring.coreos.com")["share-monitor"]["spec"]
    (endpoint,) = spec["endpoints"]
    assert (endpoint["path"], endpoint["port"]) == ("/metric", "metrics")


def test_counters_are_written_as_the_exporter_reads_them() -> None:
    lines = counters().splitlines()
    assert len(lines) == len(COUNTERS)
    assert all(line.count(",") >= 2 for line in lines)
    assert len({line.split(",")[0] for line in lines}) == len(lines)


@pytest.mark.promise("The exporter's metrics, environment and resources can be declared.")
def test_the_exporters_metrics_environment_and_resources_are_declared() -> None:
    name = "DCGM_FI_PROF_SM_ACTIVE"
    exporter = {
        "counters": [{"name": name, "help": "Share of active SMs."}],
        "env": {"NVIDIA_VISIBLE_DEVICES": "0", "A": "b"},
        "resources": {"limits": {"memory": "1Gi"}},
    }
    result = made("device-plugin", exporter=exporter)
    (container,) = result["exporter"]["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {"limits": {"memory": "1Gi"}}
    variables = [(item["name"], item.get("value")) for item in container["env"]]
    assert ("A", "b") in variables
    assert [value for key, value in variables if key == "NVIDIA_VISIBLE_DEVICES"] == ["0"]
    texts = [str(manifest.get("data", "")) for manifest in result.values()]
    assert any(f"{name}, gauge, Share of active SMs." in text for text in texts)


@pytest.mark.parametrize(
    "exporter",
    [
        {"counters": [{"name": "sm_active"}]},
        {"counters": [{"name": "DCGM_FI_DEV_X", "help": "a, b"}]},
        {"env": {"DCGM_EXPORTER_LISTEN": ":1"}},
        {"env": {"a b": "c"}},
    ],
)
def test_settings_that_the_exporter_could_not_take_are_refused(exporter: Json) -> None:
    with pytest.raises(ConfigError):
        cluster(exporter=exporter)
