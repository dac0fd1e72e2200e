"""Versions of packages are listed from the repositories that a stack declares."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.commands import package_versions
from gpu_cluster.commands.package_versions import Listed, listing, repositories
from gpu_cluster.loading.loader import load

Json = dict[str, Any]
SHA256 = "a" * 64
PACKAGES = """\
Package: docker-ce
Version: 5:27.1.1-1

Package: docker-ce
Version: 5:27.10.0-1

Package: docker-ce-cli
Version: 5:27.1.1-1
Description: Version: 9
"""
PRIMARY = """<metadata>
<package type="rpm"><name>kernel-lt</name><arch>x86_64</arch>
<version epoch="0" ver="5.4.278" rel="1.el8"/><file>/boot</file></package>
<package type="rpm"><name>kernel-lt</name><arch>x86_64</arch>
<version epoch="0" ver="5.4.9" rel="1.el8"/></package>
<package type="rpm"><name>kernel-lt</name><arch>src</arch>
<version epoch="0" ver="6.0" rel="1"/></package>
</metadata>"""
REPOMD = '<repomd><data type="primary"><location href="repodata/1-primary.xml.gz"/></data></repomd>'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat/Packages.gz").write_bytes(gzip.compress(PACKAGES.encode()))
    of_suite = tmp_path / "deb/dists/bookworm/stable/binary-amd64"
    of_suite.mkdir(parents=True)
    (of_suite / "Packages.gz").write_bytes(gzip.compress(PACKAGES.encode()))
    (tmp_path / "rpm/repodata").mkdir(parents=True)
    (tmp_path / "rpm/repodata/repomd.xml").write_text(REPOMD)
    packed = gzip.compress(PRIMARY.encode())
    (tmp_path / "rpm/repodata/1-primary.xml.gz").write_bytes(packed)
    return tmp_path


def declared(manager: str, url: str, **more: str) -> Any:
    repository = {"url": url, "keyUrl": "https://example.com/k", "keySha256": SHA256, **more}
    return load(
        {
            "version": "v1",
            "kubernetes": {"context": "c"},
            "platform": "device-plugin",
            "pools": [{"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": 8}],
            "packages": {"install": ["x"], "repository": {manager: repository}},
        }
    )


@pytest.mark.parametrize(
    ("folder", "more"), [("flat", {}), ("deb", {"suite": "bookworm", "components": "stable"})]
)
@pytest.mark.promise("`gpu-cluster images --packages` lists the versions that repositories have.")
def test_versions_of_an_apt_repository_are_listed_newest_first(
    site: Path, folder: str, more: Json
) -> None:
    url = f"file://{site}/{folder}"
    assert list(listing(declared("apt", url, **more), "docker-ce")) == [
        Listed("docker-ce", ("5:27.10.0-1", "5:27.1.1-1"), url)
    ]


def test_versions_of_a_dnf_repository_are_listed_newest_first(site: Path) -> None:
    url = f"file://{site}/rpm"
    assert list(listing(declared("dnf", url), "kernel-*")) == [
        Listed("kernel-lt", ("5.4.278-1.el8", "5.4.9-1.el8"), url)
    ]


def test_a_repository_that_cannot_be_read_says_why(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (unread,) = listing(declared("apt", f"file://{site}/none"), "*")
    assert unread.name == ""
    assert "Packages.gz" in unread.note
    monkeypatch.setattr(package_versions, "LARGEST", 64)
    (unread,) = listing(declared("apt", f"file://{site}/flat"), "*")
    assert "more than 64 bytes" in unread.note


def test_the_same_repository_is_read_once(site: Path) -> None:
    stack = declared("apt", f"file://{site}/flat")
    assert len(list(repositories((stack, stack)))) == 1
