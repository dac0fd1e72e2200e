"""All parts of the project that apply NVIDIA's security floors agree on each floor.

Each part is tested with the first fixed version and with the version before it. The admission
policy for nodes is tested in `tests/policies/admission/test_nodes.py`, because that test needs an
API server.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import date

import pytest

from gpu_cluster.hosts.preflight import validate_host
from gpu_cluster.settings.hosts.toolkit import Toolkit
from gpu_rules.facts.floors import Floor, Software, below, floors, of_images
from gpu_rules.rules import Context, evaluate
from gpu_rules.rules.charts.gpu072_driver_floor import LABEL
from tests.components.inspection.ended import told
from tests.desired_host import desired_host
from tests.policies.facts.borders import just_below, name
from tests.policies.rules.cases import release
from tests.proofs.hosts.sound import GOOD, declared

NEWEST = "v26.7.0"
SECTIONS = {
    Software.DRIVER: "driver",
    Software.TOOLKIT: "toolkit",
    Software.DEVICE_PLUGIN: "devicePlugin",
    Software.MIG_MANAGER: "migManager",
    Software.DCGM: "dcgm",
    Software.DCGM_EXPORTER: "dcgmExporter",
}
IMAGES = {
    Software.DRIVER: "nvcr.io/nvidia/driver",
    Software.TOOLKIT: "nvcr.io/nvidia/k8s/container-toolkit",
    Software.OPERATOR: "nvcr.io/nvidia/gpu-operator",
    Software.DEVICE_PLUGIN: "nvcr.io/nvidia/k8s-device-plugin",
    Software.MIG_MANAGER: "nvcr.io/nvidia/cloud-native/k8s-mig-manager",
    Software.DCGM: "nvcr.io/nvidia/cloud-native/dcgm",
    Software.DCGM_EXPORTER: "nvcr.io/nvidia/k8s/dcgm-exporter",
}
RULES = {"GPU054", "GPU072", "GPU073"}


def tag(part: Software, version: str) -> str:
    return f"4.5.3-{version}" if part is Software.DCGM_EXPORTER else version


def at_preview(part: Software, version: str) -> str:
    """Return the violations of a release of the GPU Operator's chart with a component's version."""
    section = SECTIONS.get(part, "")
    values = {section: {"enabled": True, "version": tag(part, version)}} if section else {}
    manifest = release(values=values) | {"version": f"v{version}" if not section else NEWEST}
    path = f"values.{section}.version" if section else "version"
    found = evaluate(manifest, Context())
    return "\n".join(
        violation.message
        for violation in found
        if violation.rule.id in RULES
        and violation.path == path
        and (section or f"{part} " in violation.found)
    )


def of_the_plugins_chart(part: Software, version: str) -> str:
    chart = release(values={}) | {"chart": "nvidia-device-plugin", "version": version}
    return "\n".join(
        violation.message for violation in evaluate(chart, Context()) if violation.rule.id in RULES
    )


def in_the_image_list(part: Software, version: str) -> str:
    found = of_images((f"{IMAGES[part]}:{tag(part, version)}",))
    return "\n".join(f"{wanted}: {border}" for _, wanted, border in found)


def of_a_node(part: Software, version: str) -> str:
    """Return the violations of a Node whose label reports a driver version."""
    metadata = {"name": "n", "labels": {LABEL: version}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
    return "\n".join(violation.message for violation in evaluate(node, Context()))


def at_the_inspection(part: Software, version: str) -> str:
    """Return the findings of the inspection about a node whose label reports a driver version."""
    return "\n".join(told(nodes={"n": version}, today=date(2020, 1, 1)))


def on_a_host(part: Software, version: str) -> str:
    """Return the faults of the preflight for a host on which a version is installed."""
    cluster, host = declared()
    facts = (
        dataclasses.replace(GOOD, driver=version)
        if part is Software.DRIVER
        else dataclasses.replace(GOOD, toolkit=version)
    )
    faults = validate_host(desired_host(cluster, host), facts)
    return "\n".join(str(fault) for fault in faults if f"{part} {version}" in fault.found)


def in_the_settings(part: Software, version: str) -> str:
    try:
        Toolkit(source="package", version=version)
    except ValueError as error:
        return str(error)
    return ""


Place = Callable[[Software, str], str]
PLACES: Mapping[Software, tuple[Place, ...]] = {
    Software.DRIVER: (at_preview, in_the_image_list, of_a_node, at_the_inspection, on_a_host),
    Software.TOOLKIT: (at_preview, in_the_image_list, on_a_host, in_the_settings),
    Software.OPERATOR: (at_preview, in_the_image_list),
    Software.DEVICE_PLUGIN: (at_preview, of_the_plugins_chart, in_the_image_list),
    Software.MIG_MANAGER: (at_preview, in_the_image_list),
    Software.DCGM: (at_preview, in_the_image_list),
    Software.DCGM_EXPORTER: (at_preview, in_the_image_list),
}


@pytest.mark.promise(
    "What is declared or runs below a border of an NVIDIA bulletin is named with the newest "
    "bulletin and the fixed version of its own branch: by the preview, the check, the preflight "
    "of hosts, the inspection and the list of images."
)
@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry, id=name(entry), marks=pytest.mark.versions("bulletin", entry.bulletin))
        for entry in floors()
    ],
)
def test_each_place_names_what_is_below_a_border(entry: Floor) -> None:
    fixed = entry.fixed if entry.fixed.count(".") > 1 else f"{entry.fixed}.0"
    for place in PLACES[entry.part]:
        for version in (just_below(entry), fixed):
            border = below(entry.part, version)
            said = place(entry.part, version)
            where = f"{place.__name__} {version}: {said}"
            assert bool(said) == (border is not None), where
            if border is not None:
                assert border.fixed in said, where
                assert f"NVIDIA bulletin {border.bulletin} of {border.date}" in said, where
    assert below(entry.part, just_below(entry)) is not None
