"""Find fields that the API server drops because a CustomResourceDefinition (CRD) is outdated.

`outdated` compares definitions before a change. `dropped` compares the objects of a release with
what was applied, after the change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpu_cluster.charts.availability import WantedChart
from gpu_cluster.charts.contents import ChartContents
from gpu_cluster.charts.definitions import lacking_fields, lost_fields
from gpu_cluster.charts.extra_values import merged, plain
from gpu_cluster.kubernetes.api import Client, Json, Refused
from gpu_cluster.platforms.requests import Expected, HelmRelease
from gpu_cluster.release.helm_record import newest
from gpu_cluster.release.objects import Kinds
from gpu_rules.faults import Fault
from gpu_rules.printable import printable

BASE = "/apis/apiextensions.k8s.io"
FEW = 5
"""Maximum number of dropped fields that a message names."""


async def outdated(
    client: Client, chart: ChartContents, desired_chart: WantedChart, release: HelmRelease | None
) -> list[Fault]:
    """Return a fault for each CRD in the cluster that lacks fields of the CRD in the chart.

    CRDs of subcharts are ignored, because a release creates no objects of their kinds. If the chart
    itself updates its CRDs before an upgrade, the CRDs of an installed release are ignored, too
    (gpu-operator v26.7.0, templates/upgrade_crd.yaml).

    Args:
        desired_chart: The declared chart with the values of the release.
    """
    if (
        release
        and _operator_updates_crds(chart, desired_chart.values)
        and await newest(client, release)
    ):
        return []
    result = []
    for name, definition in chart.definitions.items():
        live = await _read_definition(client, name)
        lacking = lacking_fields(live, definition) if live else []
        if lacking:
            result.append(_outdated_definition(name, lacking, desired_chart))
    return result


def _operator_updates_crds(chart: ChartContents, values: Mapping[str, Any]) -> bool:
    operator = merged(plain(chart.values), values).get("operator")
    declared = operator.get("upgradeCRD") if isinstance(operator, Mapping) else False
    return "operator.upgradeCRD" in chart.read and declared is True


async def _read_definition(client: Client, name: str) -> Json | None:
    """Return a CustomResourceDefinition; None if it does not exist or RBAC forbids reading it."""
    try:
        return await client.find(f"customresourcedefinitions/{name}", base=BASE)
    except Refused as error:
        if error.code != 403:
            raise
        return None


def _outdated_definition(name: str, lacking: list[str], chart: WantedChart) -> Fault:
    return Fault(
        f"CustomResourceDefinition {name}",
        f"a definition without {_few_paths(lacking)}",
        f"the definition of {chart.chart} {chart.version}: the API server drops fields that a "
        "definition lacks, and Helm updates no definition",
        "apply the definition in the chart's folder crds/ with `kubectl apply --server-side "
        "--force-conflicts -f`, or delete it if the cluster has no object of its kind",
    )


def _few_paths(paths: list[str]) -> str:
    more = f" and {len(paths) - FEW} more" if len(paths) > FEW else ""
    return printable(f"{', '.join(paths[:FEW])}{more}", 1000)


async def dropped(client: Client, items: list[Expected], namespace: str) -> list[Fault]:
    """Return a fault for each custom object in the cluster that lacks fields of its manifest.

    Args:
        items: Objects of a release, with their manifests.
        namespace: Namespace of the release, for objects whose manifest has none.
    """
    kinds = Kinds(client)
    result = []
    for item in items:
        if item.body is None or not _is_custom_api(item.api_version):
            continue
        location = await kinds.url(replace(item, namespace=item.namespace or namespace))
        live = await _read_object(client, location) if location else None
        lost = list(lost_fields(_spec_of(json.loads(item.body)), _spec_of(live))) if live else []
        if lost:
            result.append(
                Fault(
                    str(item),
                    f"an object without {_few_paths([f'spec.{path}' for path in lost])}, which "
                    "the run set",
                    "the object as it was applied: its CustomResourceDefinition is of another "
                    "version and has no such field",
                    "apply the chart's own definition (folder crds/), then run again",
                )
            )
    return result


def _is_custom_api(api_version: str) -> bool:
    group = api_version.rpartition("/")[0]
    return "." in group and not group.endswith(".k8s.io")


def _spec_of(item: Any) -> Any:
    return item.get("spec") if isinstance(item, Mapping) else None


async def _read_object(client: Client, location: tuple[str, str, str]) -> Json | None:
    path, base, version = location
    try:
        live: Json = await client.request("GET", path, base=base, version=version)
    except Refused as error:
        if error.code not in (403, 404):
            raise
        return None
    return live
