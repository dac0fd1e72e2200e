"""The table of security floors agrees with NVIDIA's bulletins.

A version at a floor counts as fixed, and the version before it as vulnerable.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from gpu_rules.facts import csaf, parts, reference
from gpu_rules.facts.floors import (
    TABLE,
    Floor,
    Software,
    below,
    floor,
    floors,
    newest_bulletin,
    of_images,
    parse,
    unknown_branch,
    wanted,
)
from maintenance.facts import chart_parts, documents
from tests.policies.facts.borders import name

ROOT = Path(__file__).resolve().parents[3]
BULLETINS = Path(os.environ.get("CSAF") or ROOT.parent / "shared" / "data" / "csaf")


BORDERS = [
    pytest.param(entry, id=name(entry), marks=pytest.mark.versions("bulletin", entry.bulletin))
    for entry in floors()
]


def before(version: str) -> str:
    """Return a version just below a version."""
    numbers = [int(number) for number in version.split(".")]
    while numbers[-1] == 0:
        numbers.pop()
    return ".".join(map(str, [*numbers[:-1], numbers[-1] - 1, 999]))


def last_affected(entry: Floor) -> str:
    """Return the last vulnerable version.

    This is the version that the bulletin names, or a version just below the first fixed version.
    """
    named = re.findall(r"[0-9]+(?:\.[0-9]+)+", entry.affected.partition("(")[0])[-1]
    return before(entry.fixed) if "prior to" in entry.affected else named


@pytest.mark.promise("Each version that an NVIDIA bulletin calls affected is below its floor.")
@pytest.mark.parametrize("entry", BORDERS)
def test_the_last_affected_version_is_below(entry: Floor) -> None:
    for version in (last_affected(entry), before(entry.fixed), f"v{last_affected(entry)}-ubuntu"):
        assert entry.affects(version)
        border = below(entry.part, version)
        assert border is not None
        assert parse(border.fixed) >= parse(entry.fixed)
        assert border.branch == entry.branch


@pytest.mark.promise(
    "The version that fixes an NVIDIA bulletin is not below that bulletin's floor."
)
@pytest.mark.parametrize("entry", BORDERS)
def test_the_fixed_version_is_not_affected(entry: Floor) -> None:
    is_strict = bool(entry.contradiction)
    assert entry.affects(entry.fixed) is is_strict
    assert entry.affects(f"v{entry.fixed}-ubuntu22.04") is is_strict
    major, *rest = entry.fixed.split(".")
    assert not entry.affects(f"{major}.{'.'.join([*rest[:-1], str(int(rest[-1]) + 1)])}")


def test_a_version_that_a_bulletin_calls_both_affected_and_fixed_is_affected() -> None:
    contradicted = {entry.part for entry in floors() if entry.contradiction}
    assert contradicted == {Software.DCGM_EXPORTER}
    border = below(Software.DCGM_EXPORTER, "4.8.2")
    assert border is not None
    assert wanted(Software.DCGM_EXPORTER, "4.8.2", border) == (
        "a version later than 4.8.2: the bulletin calls 4.8.2 both affected and fixed"
    )
    assert below(Software.DCGM_EXPORTER, "4.8.3") is None


def test_a_branch_of_which_no_bulletin_is_known_is_not_called_safe() -> None:
    sentence = unknown_branch("620.10.01")
    assert f"names branch 620, the newest is of {newest_bulletin()}" in sentence
    assert "doesn't mean that it is safe" in sentence
    assert unknown_branch("580.95.05") == unknown_branch("570.211.01") == unknown_branch("") == ""
    page = reference.page()
    assert f"The newest bulletin that this project read is of {newest_bulletin()}" in page
    assert "| later than 4.8.2, see the last column | 5857 |" in page


@pytest.mark.parametrize(
    ("part", "branch", "fixed", "cve"),
    [
        (Software.TOOLKIT, "", "1.19.1", "CVE-2026-24260"),
        (Software.OPERATOR, "", "26.3.2", "CVE-2026-24260"),
        (Software.DRIVER, "580", "580.159.03", "CVE-2025-33221"),
        (Software.DRIVER, "595", "595.71.05", "CVE-2025-33221"),
        (Software.DRIVER, "535", "535.309.01", "CVE-2025-33221"),
        (Software.DEVICE_PLUGIN, "", "0.17.3", "CVE-2025-23266"),
        (Software.MIG_MANAGER, "", "0.12.2", "CVE-2025-23266"),
        (Software.DCGM_EXPORTER, "", "4.8.2", "CVE-2026-47483"),
    ],
)
def test_the_floors_of_today(part: Software, branch: str, fixed: str, cve: str) -> None:
    entry = floor(part, branch)
    assert entry.fixed == fixed
    assert cve in entry.cves


def test_a_branch_without_a_fix_is_named_with_the_next() -> None:
    entry = below(Software.DRIVER, "570.211.01")
    assert entry is not None
    assert (
        wanted(Software.DRIVER, "570.211.01", entry) == "580.159.03 or later: branch 570 has no fix"
    )
    assert below(Software.DRIVER, "620.10.01") is None
    own = below(Software.DRIVER, "570.124.06")
    assert own is not None
    assert own.fixed == "570.211.01"


@pytest.mark.parametrize("text", ["", "latest", "sha256:0", "580", "1.17.3.", "٣.1", "1.2\n3"])
def test_a_text_that_is_no_version_has_no_floor(text: str) -> None:
    assert all(below(part, text) is None for part in Software) or parse(text)


def test_images_below_a_floor_are_named() -> None:
    names = (
        "nvcr.io/nvidia/driver:580.126.20-ubuntu22.04",
        "nvcr.io/nvidia/k8s/container-toolkit:v1.19.1",
        "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.2-4.8.1-distroless",
        "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless@sha256:0",
        "registry.example.com/driver:1.0.0",
    )
    found = [(image, version) for image, version, _ in of_images(names)]
    both = "4.8.2: the bulletin calls 4.8.2 both affected and fixed"
    assert found == [
        (names[0], "580.159.03 or later of branch 580"),
        (names[2], f"a version later than {both}"),
        (names[3], f"a version later than {both}"),
    ]


@pytest.mark.promise(
    "The committed security floors are what `make facts` writes from the bulletins."
)
def test_the_table_is_what_the_bulletins_give() -> None:
    if not BULLETINS.is_dir():
        pytest.skip(f"no folder of CSAF documents at {BULLETINS}: set CSAF")
    assert csaf.table(documents(BULLETINS)) == TABLE.read_text(encoding="utf-8")


def test_the_charts_parts_are_what_the_image_list_gives() -> None:
    assert chart_parts() == parts.TABLE.read_text(encoding="utf-8")


def advisory(
    versions: tuple[str, ...] = ("All versions up to and including 1.2.0", "1.2.1"),
    architecture: str = "Linux",
    **head: Any,
) -> dict[str, Any]:
    leaves = [
        {
            "category": "product_version",
            "name": "NVIDIA Container Toolkit",
            "product": {"name": text, "product_id": f"id-{number}"},
        }
        for number, text in enumerate(versions)
    ]
    tree = [{"category": "architecture", "name": architecture, "branches": leaves}]
    tracking = {"id": "9999", "current_release_date": "2026-01-02T00:00:00Z"}
    kind = {"category": "csaf_security_advisory", "csaf_version": "2.0"}
    status = {"known_affected": ["id-0"], "fixed": ["id-1"]}
    return {
        "document": {**kind, "tracking": tracking, **head},
        "product_tree": {"branches": [{"category": "vendor", "name": "NVIDIA", "branches": tree}]},
        "vulnerabilities": [{"cve": "CVE-2026-1000", "product_status": status}],
    }


def test_a_bulletin_gives_its_border() -> None:
    (entry,) = csaf.bulletin(json.dumps(advisory()))
    assert (entry.part, entry.fixed, entry.cves) == (Software.TOOLKIT, "1.2.1", ("CVE-2026-1000",))


@pytest.mark.parametrize(
    "document",
    [
        advisory(versions=("all of them", "1.2.1")),
        advisory(versions=("All versions up to and including 1.2.0", "1.2.1 or so")),
        advisory(versions=("All versions up to and including 1.2.0",)),
        advisory(versions=("0.0 to 1.2.1", "1.2.1", "1.3.0")),
        advisory(architecture="Windows"),
        advisory(csaf_version="2.1"),
        advisory(category="csaf_vex"),
        advisory(tracking={"id": "../../x", "current_release_date": "2026-01-02"}),
        advisory(tracking={"id": "1", "current_release_date": "soon"}),
        {**advisory(), "vulnerabilities": [{"cve": "no", "product_status": {"fixed": ["id-1"]}}]},
        {**advisory(), "product_tree": {"branches": "x"}},
        {"document": []},
        [],
    ],
    ids=range(13),
)
def test_an_unknown_form_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        csaf.bulletin(json.dumps(document))


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, "x" * (csaf.BYTES + 1)], ids=["empty", "half", "deep", "long"]
)
def test_a_text_that_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(csaf.BulletinError):
        csaf.bulletin(text)
