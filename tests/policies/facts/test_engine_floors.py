"""The table of weaknesses of containerd and runc agrees with the makers' advisories."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpu_rules.facts import reference
from gpu_rules.facts.engine_floors import (
    TABLE,
    Weakness,
    newest_advisory,
    read,
    unfixed,
    weaknesses,
)
from maintenance.engine_floors import DocumentError, document, table


def fixed(software: str, version: str) -> str:
    weakness = unfixed(software, version)
    return weakness.fixed if weakness else ""


@pytest.mark.parametrize(
    ("software", "version", "wanted"),
    [
        ("containerd", "1.6.20~ds1", "1.7.33"),
        ("containerd", "1.7.33", ""),
        ("containerd", "2.1.5", "2.2.5"),
        ("containerd", "2.1.9", "2.2.5"),
        ("containerd", "2.2.4", "2.2.5"),
        ("containerd", "v2.3.1-k3s1", "2.3.2"),
        ("containerd", "2.3.2", ""),
        ("containerd", "2.4.0", ""),
        ("runc", "1.1.12-0ubuntu3.1", "1.3.6"),
        ("runc", "1.3.6", ""),
        ("runc", "1.4.0", "1.4.3"),
        ("runc", "1.5.0", ""),
        ("runc", "unknown", ""),
        ("docker", "20.10.24", ""),
    ],
)
def test_the_next_version_without_a_known_weakness_is_named(
    software: str, version: str, wanted: str
) -> None:
    assert fixed(software, version) == wanted


def test_what_is_called_fixed_has_no_weakness_of_its_own() -> None:
    for each in weaknesses():
        assert each.affects(each.since or "0.0.1")
        assert not each.affects(each.fixed)
        last = fixed(each.software, each.fixed) or each.fixed
        assert fixed(each.software, last) == ""


def test_the_page_says_which_advisory_is_the_newest_and_that_no_row_is_not_safe() -> None:
    page = reference.page()
    assert f"The newest advisory that was read is of {newest_advisory()}" in page
    assert "| containerd | 2.3 | 2.3.2 | GHSA-" in page
    assert "| runc | 1.4 | 1.4.3 | GHSA-xjvp-4fhw-gc47 |" in page
    assert "does not mean that it is safe" in page


@pytest.mark.promise(
    "The committed weaknesses of containerd and runc are what `make facts` writes from the makers' "
    "advisories."
)
def test_the_table_is_what_the_database_gives() -> None:
    repositories = Path(os.environ.get("REPOSITORIES") or "/nonexistent")
    if not (repositories / "golang+vulndb").is_dir():
        pytest.skip("REPOSITORIES names no folder with golang/vulndb")
    assert table(repositories) == TABLE.read_text(encoding="utf-8")


def osv(*events: dict[str, str], module: str = "github.com/opencontainers/runc") -> dict[str, Any]:
    affected = {"package": {"name": module}, "ranges": [{"type": "SEMVER", "events": [*events]}]}
    return {"aliases": ["CVE-2026-1000", "GHSA-aaaa-bbbb-cccc"], "affected": [affected]}


def of_document(entry: Any) -> list[tuple[str, str, str]]:
    found = document(json.dumps(entry), "2026-01-02")
    return [(each.software, each.since, each.fixed) for each in found]


def test_a_document_gives_each_range_that_has_a_fix() -> None:
    start, end = {"introduced": "0"}, {"fixed": "1.2.8"}
    later = ({"introduced": "1.3.0-rc.1"}, {"fixed": "1.3.3"})
    candidates = ({"introduced": "1.4.0-rc.1"}, {"fixed": "1.4.0-rc.3"})
    assert of_document(osv(start, end, *later, *candidates)) == [
        ("runc", "", "1.2.8"),
        ("runc", "1.3.0", "1.3.3"),
    ]
    assert of_document(osv(start)) == []
    assert of_document(osv(start, end, module="github.com/opencontainers/selinux")) == []
    assert of_document({**osv(start, end), "withdrawn": "2026-01-01T00:00:00Z"}) == []
    second = osv(start, {"fixed": "2.0.7"}, module="github.com/containerd/containerd/v2")
    assert of_document(second) == [("containerd", "2.0.0", "2.0.7")]


@pytest.mark.parametrize(
    "entry",
    [
        [],
        {},
        osv({"introduced": "soon"}),
        osv({"limit": "1.2.3"}),
        osv({"introduced": "0", "fixed": "1.2.3"}),
        {**osv({"introduced": "0"}, {"fixed": "1.2.8"}), "aliases": ["GHSA-x"]},
        {
            **osv({"introduced": "0"}, {"fixed": "1.2.8"}),
            "aliases": ["GHSA-aaaa-bbbb-cccc", "CVE-"],
        },
    ],
    ids=range(7),
)
def test_an_unknown_form_is_refused(entry: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        of_document(entry)


def test_a_document_that_is_too_long_is_refused() -> None:
    with pytest.raises(DocumentError):
        list(document("x" * (1024 * 1024 + 1), "2026-01-02"))


def test_a_broken_table_is_refused() -> None:
    good = Weakness("runc", "", "1.2.8", "GHSA-aaaa-bbbb-cccc", "2026-01-02", ("CVE-2026-1000",))
    assert str(good) == "runc's advisory GHSA-aaaa-bbbb-cccc of 2026-01-02: CVE-2026-1000"
    for text in ('{"weaknesses": []}', '{"weaknesses": [{}]}', "{}", "x"):
        with pytest.raises((ValueError, KeyError, TypeError)):
            read(text)
