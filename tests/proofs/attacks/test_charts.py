"""Attack: a Helm chart was changed in its repository or in a local folder of charts."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gpu_cluster.charts import availability, contents
from gpu_cluster.charts.availability import WantedChart
from gpu_cluster.settings.chart_source import ChartSource
from gpu_cluster.settings.charts import ChartsSettings
from gpu_cluster_lab.simulator.http_servers import QuietHandler, running
from tests.fixtures import charts

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


class Repository:
    """Helm chart repository on loopback, whose files the test sets.

    Args:
        certificate: File with a private key and its certificate; None: the repository has no TLS.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        files: dict[str, bytes] = {}
        moved: dict[str, str] = {}
        self.files, self.moved = files, moved

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                content = files.get(self.path)
                self.send_response(302 if self.path in moved else 404 if content is None else 200)
                if self.path in moved:
                    self.send_header("Location", moved[self.path])
                self.end_headers()
                self.wfile.write(content or b"")

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if certificate:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.address = f"{scheme}://127.0.0.1:{self.server.server_port}"
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
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    certificate = made.add_extension(address, critical=False).sign(key, hashes.SHA256())
    file = tmp_path / "certificate.pem"
    encoding = serialization.Encoding.PEM
    form, secret = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file.write_bytes(key.private_bytes(encoding, form, secret) + certificate.public_bytes(encoding))
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
