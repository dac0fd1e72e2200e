"""The set of versions that the how-to for shared cards names passes preflight."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.preflight import validate_host
from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.findings import Surroundings
from gpu_rules.faults import FaultSeverity
from tests.desired_host import desired_host
from tests.resolved import platform_of

HOW_TO = Path(__file__).resolve().parents[4] / "docs/how-to/shared-cards.md"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEfxFSAF45h/u4FWcTpIO9dleHVOhDTjHvn4WRhQJDYQ"


@pytest.mark.promise("The how-to for gpu-manager names one whole set of versions that passes.")
def test_preflight_passes_with_the_versions_of_the_how_to() -> None:
    text = HOW_TO.read_text("utf-8")
    (declared,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    sections = yaml.safe_load(declared)
    assert sections["driver"]["version"] in text.partition("```yaml")[0]
    cluster = load(
        {
            "version": "v1",
            "kubernetes": {"context": "c"},
            "pools": [{"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": 8}],
            "hosts": [{"name": "gpu-1", "address": "192.0.2.1", "hostKey": KEY}],
            **sections,
        }
    )
    facts = HostFacts(
        os="ubuntu",
        os_version="22.04",
        arch="x86_64",
        kernel="5.15.0-153-generic",
        headers=True,
        nvidia_devices=8,
        driver=sections["driver"]["version"],
        containerd="1.7.28",
        default_runtime="runc",
        cgroup=1,
        kubelet_cgroup_v1=True,
        disk_free_mib=99_999,
    )
    found = [*validate_host(desired_host(cluster, 0), facts)]
    seen = Surroundings(
        version="v1.34.4",
        engines={"gpu-1": "containerd://1.7.28"},
        service_ranges=("10.96.0.0/12",),
    )
    found += platform_of(cluster).validate_cluster(seen, {"gpu-1": facts})
    assert [str(each) for each in found if each.severity is FaultSeverity.ERROR] == []
    # Of a later driver, cgroup v2 or containerd 2 preflight says that it does not fit.
    assert "vectoradd-cuda10.2" in cluster.validation.image
    assert not cluster.hosts[0].runtime.systemd_cgroup
