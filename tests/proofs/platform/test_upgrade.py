"""A new chart version upgrades the Helm release in place."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.kubernetes.api import Client
from gpu_cluster.release.helm_record import decode_release
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import Project, figures
from tests.proofs.platform import ways
from tests.proofs.platform.chart_folders import FAKE_CHARTS
from tests.proofs.platform.ways import ALL

Json = dict[str, Any]


def record(project: Project, name: str, namespace: str) -> tuple[int, str]:
    """Return revision and chart version in the newest record of a Helm release."""

    async def ask(client: Client) -> list[Json]:
        url = f"namespaces/{namespace}/secrets"
        return await client.list(url, labelSelector=f"owner=helm,name={name}")

    newest = max(project.ask(ask), key=lambda item: int(item["metadata"]["labels"]["version"]))
    release = decode_release(newest)
    return int(release["version"]), release["chart"]["metadata"]["version"]


@pytest.mark.full
def test_another_chart_version_is_an_upgrade_in_place(project: Project, tmp_path: Path) -> None:
    name = space = "nvidia-device-plugin"
    before = snapshot.cluster(project)
    project.write(ways.declared(project.stack, "device-plugin"))
    assert figures(project.up())[:2] == (ALL, ALL)
    url = f"namespaces/{space}/daemonsets/{name}"
    first = project.request("GET", url, base="/apis/apps")["metadata"]["uid"]
    revision, version = record(project, name, space)

    newer = tmp_path / "charts"
    shutil.copytree(FAKE_CHARTS, newer)
    file = newer / name / "Chart.yaml"
    chart = yaml.safe_load(file.read_text())
    chart["version"] = "0.20.99"
    file.write_text(yaml.safe_dump(chart))
    settings = {**ways.WAYS["device-plugin"].get("devicePlugin", {}), "version": "0.20.99"}
    project.write(ways.declared(project.stack, "device-plugin", devicePlugin=settings))
    done = project.command("up", GPU_CHARTS=str(newer))
    assert done.returncode == 0, done.stdout
    assert record(project, name, space) == (revision + 1, "0.20.99") != (revision, version)
    assert project.request("GET", url, base="/apis/apps")["metadata"]["uid"] == first

    gone = project.command("destroy")
    assert gone.returncode == 0, gone.stdout
    assert snapshot.cluster(project) == before
