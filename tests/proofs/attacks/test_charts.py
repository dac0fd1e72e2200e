"""Attack: a Helm chart was changed in its repository or in a local folder of charts."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.charts import availability, contents
from gpu_cluster.charts.availability import WantedChart
from gpu_cluster.commands import package_versions
from gpu_cluster.settings.chart_source import ChartSource
from gpu_cluster.settings.charts import ChartsSettings
from gpu_cluster.settings.hosts.repository import Repositories
from gpu_cluster.settings.hosts.repository import Repository as PackageRepository
from gpu_cluster_lab.simulator.http_servers import running
from tests.fixtures import charts
from tests.proofs.attacks.sites import Site, write_certificate

ROOT = Path(__file__).resolve().parents[3]
CHART, VERSION = "nvidia-device-plugin", "0.19.3"
ARCHIVE = charts.packed(CHART, charts.files(CHART, VERSION))
LIMIT = 20


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


DIGEST = sha256(ARCHIVE)


def refused(place: str, digest: str) -> str:
    """Return why a chart at a place is refused; empty if it is accepted."""
    wanted = WantedChart(place=place, chart=CHART, version=VERSION, digest=digest)
    return asyncio.run(availability.fetched(wanted)).problem


class Repository(Site):
    """Helm chart repository on loopback, whose files the test sets."""

    def __init__(self, certificate: Path | None = None) -> None:
        super().__init__(certificate)
        self.publish(ARCHIVE)

    def publish(self, archive: bytes, url: str = "charts/a.tgz") -> None:
        """Publish a chart archive.

        The repository's index always has the original archive's digest.
        """
        entry = f"{{version: {VERSION}, digest: {DIGEST[7:]}, urls: ['{url}']}}"
        self.files["/index.yaml"] = f"entries:\n  {CHART}: [{entry}]\n".encode()
        self.files["/charts/a.tgz"] = archive

    def refusal(self, digest: str = DIGEST) -> str:
        return refused(self.address, digest)


@contextmanager
def serving(made: Repository) -> Iterator[Repository]:
    with running(made.server):
        yield made


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Repository()) as made:
        yield made


@pytest.fixture
def secure_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Repository]:
    file = write_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Repository(file)) as repository:
        yield repository


def test_https_never_leads_to_http(repository: Repository, secure_repository: Repository) -> None:
    assert secure_repository.refusal() == ""
    secure_repository.publish(ARCHIVE, f"{repository.address}/charts/a.tgz")
    assert "only by http" in secure_repository.refusal()
    secure_repository.publish(ARCHIVE)
    for path in ("/charts/a.tgz", "/index.yaml"):
        secure_repository.moved[path] = f"{repository.address}{path}"
        assert "a redirect from https to http" in secure_repository.refusal()
        secure_repository.moved.clear()
    repository.moved["/charts/a.tgz"] = f"{secure_repository.address}/charts/a.tgz"
    assert repository.refusal() == ""


@pytest.mark.parametrize("manager", ["apt", "dnf"])
def test_the_index_of_packages_is_never_read_by_http_from_https(
    repository: Repository, secure_repository: Repository, manager: str
) -> None:
    made = PackageRepository.model_construct(url=secure_repository.address, suite="/")
    parts: dict[str, Any] = {"apt": None, "dnf": None, manager: made}
    declared = Repositories.model_construct(**parts)
    indices = {
        "/Packages.gz": gzip.compress(b"Package: a\nVersion: 1\n"),
        "/repodata/repomd.xml": b'<location href="repodata/primary.xml.gz"',
        "/repodata/primary.xml.gz": gzip.compress(
            b'<name>a</name><arch>noarch</arch><version epoch="0" ver="1" rel="1"/>'
        ),
    }
    for place in (repository, secure_repository):
        place.files.update(indices)
    (listed,) = package_versions.listing(declared, "*")
    assert (listed.name, listed.note) == ("a", "")
    secure_repository.moved.update({path: f"{repository.address}{path}" for path in indices})
    (listed,) = package_versions.listing(declared, "*")
    assert "a redirect from https to http" in listed.note
    secure_repository.moved.clear()
    primary = f'<location href="{repository.address}/repodata/primary.xml.gz"'
    secure_repository.files["/repodata/repomd.xml"] = primary.encode()
    (listed,) = package_versions.listing(declared, "*")
    assert ("from https to http" in listed.note) == (manager == "dnf")


OPENERS = {
    "components/gpu_cluster/charts/download.py": "_SameSecurity",
    "embedded/gpu_cluster_lab/toolchain/releases.py": "_SameSecurity",
    # These two open the API servers of the simulator on loopback, by the certificate given to them.
    "embedded/gpu_cluster_lab/simulator/kubectl.py": "HTTPSHandler(context=context)",
    "embedded/gpu_cluster_lab/simulator/proxies.py": "HTTPSHandler(context=context)",
}
"""Modules that open addresses by urllib, and the handler with which they do."""


def test_no_code_opens_an_address_in_another_way() -> None:
    opening = re.compile(r"\burlopen\(|\burlretrieve\(|\bbuild_opener\(|follow_redirects")
    found = {
        str(file.relative_to(ROOT)): text
        for folder in ("components", "embedded", "lab", "maintenance", "package", "policies")
        for file in (ROOT / folder).rglob("*.py")
        if opening.search(text := file.read_text())
    }
    assert found.keys() == OPENERS.keys()
    for name, text in found.items():
        assert OPENERS[name] in text[text.index("build_opener(") :].split("\n\n")[0], name
        assert text.count("build_opener(") == 1, name
        assert not re.search(r"\burlopen\(|\burlretrieve\(|follow_redirects", text), name


def test_no_proxy_is_asked_for_a_program_of_this_machine() -> None:
    """Calls of gRPC for Python to loopback go to the proxy of the environment, too."""
    for folder in ("components", "embedded", "lab", "package", "policies"):
        for file in (ROOT / folder).rglob("*.py"):
            text = file.read_text()
            if "insecure_channel(" in text and 'insecure_channel(f"unix:' not in text:
                assert '("grpc.enable_http_proxy", 0)' in text, file


def test_an_archive_that_its_repository_changed_is_refused(repository: Repository) -> None:
    assert repository.refusal() == ""
    repository.publish(b"another")
    assert repository.refusal() == f"an archive with {sha256(b'another')} instead of {DIGEST}"


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "http://127.0.0.1:1/a.tgz", "charts/none.tgz", "ftp://a/b"]
)
def test_an_archive_that_is_elsewhere_or_nowhere_is_refused(
    repository: Repository, url: str
) -> None:
    repository.publish(ARCHIVE, url)
    assert repository.refusal().startswith(("no archive at ", "no chart from "))


@pytest.mark.parametrize(
    "index",
    [
        b"",
        b"[",
        b"entries: 7",
        b"entries: {nvidia-device-plugin: [{}]}",
        b"entries: {nvidia-device-plugin: [{version: 0.19.3, urls: []}]}",
        b"entries: {nvidia-device-plugin: [{version: 0.20.0, urls: [a]}]}",
        b"!!python/object/apply:os.system [true]",
        b"\xff\x1b[2J",
        b"- " * 100_000,
    ],
)
def test_an_index_that_is_none_is_refused_in_words(repository: Repository, index: bytes) -> None:
    repository.files["/index.yaml"] = index
    said = repository.refusal()
    assert said.startswith("no chart from ")
    assert "\x1b" not in said


def test_an_endless_archive_ends_at_its_bound(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(availability, "MOST", 1000)
    repository.publish(b"x" * 2000)
    assert "more than 1000 bytes" in repository.refusal()


def test_an_archive_in_a_folder_is_compared_with_what_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPU_CHARTS", raising=False)
    settings = ChartsSettings(directory=str(tmp_path), digests={CHART: DIGEST})
    source = ChartSource(settings, CHART, "https://example.com/charts", VERSION)
    place, digest = source.location, source.digest
    assert (place, digest) == (f"{tmp_path}/{CHART}-{VERSION}.tgz", DIGEST)
    for content, expected in ((None, True), (b"another", True), (ARCHIVE, False)):
        if content is not None:
            Path(place).write_bytes(content)
        assert bool(refused(place, digest)) is expected


def test_a_registry_is_asked_for_what_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPU_CHARTS", raising=False)
    settings = ChartsSettings(oci="oci://example.com/charts", digests={CHART: DIGEST})
    source = ChartSource(settings, CHART, "https://example.com/charts", VERSION)
    assert source.location == f"oci://example.com/charts/{CHART}@{DIGEST}"


def test_what_makers_publish_holds_for_their_own_repository_alone() -> None:
    own = "https://nvidia.github.io/k8s-device-plugin"
    assert ChartSource(ChartsSettings(), CHART, own, VERSION).digest.startswith("sha256:8f0106")
    settings = ChartsSettings(oci="oci://example.com/charts")
    assert ChartSource(settings, CHART, own, VERSION).digest == ""


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x1f\x8b" + b"\0" * 100,
        charts.packed(CHART, {"values.yaml": "a: 1"}),
        charts.packed(CHART, charts.files(CHART, VERSION, values_yaml="[" * 500)),
        charts.packed(CHART, charts.files(CHART, VERSION, values_schema_json="{")),
        charts.packed(CHART, {f"templates/{n}": "" for n in range(contents.FILES + 1)}),
    ],
)
def test_an_archive_that_is_no_chart_is_refused_in_words(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        contents.of_archive(content)


def test_a_chart_that_unpacks_without_end_is_refused() -> None:
    bomb = gzip.compress(b"\0" * (contents.ALL_BYTES + 1))
    with pytest.raises(ValueError, match="more than"):
        contents.of_archive(bomb)
