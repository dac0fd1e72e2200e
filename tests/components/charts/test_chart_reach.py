"""The preflight checks that charts and images can be downloaded before anything is changed."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.charts import availability, contents, oci
from gpu_cluster.charts.availability import WantedChart
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.observed.probe import parse
from gpu_cluster.inspection.judgement import Seen, judged
from gpu_cluster.inspection.observed_cluster import ClusterSeen
from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.needed import registries
from gpu_cluster_lab.simulator.http_servers import QuietHandler, running
from gpu_rules.faults import ConfigError
from tests.fixtures import charts
from tests.fixtures.documents import document
from tests.fixtures.platforms import deployed
from tests.fixtures.probed import Machine

LIMIT = 20
CHART = "nvidia-device-plugin"


class _Repository(QuietHandler):
    """Fake chart repository and OCI registry; other paths return 404.

    `/v2/private/` requires a login, `/v2/public/` a token for everybody, as registries do
    (distribution/distribution, docs/spec/auth/token.md).
    """

    ARCHIVE = charts.packed(CHART, charts.files(CHART, "0.20.0"))
    BLOB = f"sha256:{hashlib.sha256(ARCHIVE).hexdigest()}"
    INDEX = f"entries: {{{CHART}: [{{version: 0.20.0, urls: [a.tgz]}}]}}".encode()
    MANIFEST = json.dumps({"layers": [{"mediaType": oci.CHART, "digest": BLOB}]}).encode()

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        given = self.headers.get("Authorization")
        if path.startswith("/v2/") and (given != "Bearer everybody" or "private" in path):
            realm = f"http://{self.headers['Host']}/token"
            self.send_response(401)
            self.send_header("WWW-Authenticate", f'Bearer realm="{realm}",scope="pull"')
            self.end_headers()
            return
        files = {
            "/charts/index.yaml": self.INDEX,
            "/charts/a.tgz": self.ARCHIVE,
            "/token": b'{"token": "everybody"}' if query == "scope=pull" else None,
            "/v2/public/chart/manifests/0.20.0": self.MANIFEST,
            f"/v2/public/chart/blobs/{self.BLOB}": self.ARCHIVE,
        }
        content = files.get(path)
        self.send_response(404 if content is None else 200)
        self.end_headers()
        self.wfile.write(content or b"")


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with running(ThreadingHTTPServer(("127.0.0.1", 0), _Repository)) as address:
        yield address


def why(place: str, version: str = "0.20.0", **more: Any) -> str:
    wanted = WantedChart(place=place, chart=CHART, version=version, **more)
    return asyncio.run(availability.fetched(wanted)).problem


@pytest.mark.promise(
    "A chart version that its source does not have is refused before the first host changes."
)
def test_a_repository_must_have_the_version(repository: str) -> None:
    assert why(f"{repository}/charts") == ""
    assert why(f"{repository}/charts/") == ""
    assert why(repository).startswith("no chart from")
    assert f"an index without an address of {CHART} 0.20.1" in why(f"{repository}/charts", "0.20.1")


def test_a_registry_must_have_the_version_if_it_tells_everybody(repository: str) -> None:
    archive = oci.chart(repository, "public/chart", "0.20.0")
    assert contents.of_archive(archive).version == "0.20.0"
    with pytest.raises(ValueError, match="HTTP 404"):
        oci.chart(repository, "public/chart", "0.20.1")
    with pytest.raises(oci.LoginRequiredError):
        oci.chart(repository, "private/chart", "0.20.0")


def test_a_place_that_does_not_answer_is_named_with_its_reason() -> None:
    dead = "http://127.0.0.1:1"
    assert why(dead).startswith(f"no chart from {dead}/index.yaml (")
    assert why("oci://127.0.0.1:1/charts").startswith("no 0.20.0 at oci://127.0.0.1:1/charts (")


def folder(path: Path, version: str = "0.20.0", **more: str) -> str:
    for name, text in charts.files(CHART, version, **more).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return str(path)


@pytest.mark.promise("A folder with another chart than the declared one is refused.")
def test_a_folder_must_hold_the_declared_chart(tmp_path: Path) -> None:
    assert why(str(tmp_path)) == "a folder without Chart.yaml"
    assert why(folder(tmp_path)) == ""
    assert why(folder(tmp_path), "v0.20.0") == ""
    assert why(folder(tmp_path), "0.19.3") == f"the chart {CHART} 0.20.0 instead"
    another = "name: other\nversion: 0.20.0\n"
    assert why(folder(tmp_path, Chart_yaml=another)) == "the chart other 0.20.0 instead"


@pytest.mark.promise(
    "Values for a chart version that this program does not know are compared with the chart's own."
)
def test_an_unknown_versions_values_must_be_read_by_the_chart(tmp_path: Path) -> None:
    place = folder(tmp_path)
    good = {"image": {"tag": "x"}, "labels": {"any": "key"}, "hidden": {"key": 1}, "off": False}
    assert why(place, values=good, unknown=True) == ""
    bad = {"image": {"tags": "x"}, "flag": True}
    assert why(place, values=bad) == ""
    said = why(place, values=bad, unknown=True)
    assert said == "values that this chart does not read: flag, image.tags"


def test_an_unknown_versions_values_must_pass_the_charts_schema(tmp_path: Path) -> None:
    schema = json.dumps({"properties": {"image": {"properties": {"tag": {"type": "string"}}}}})
    place = folder(tmp_path, values_schema_json=schema)
    assert why(place, values={"image": {"tag": "x"}}, unknown=True) == ""
    assert "image.tag: 7 is not of type" in why(place, values={"image": {"tag": 7}}, unknown=True)


def test_values_of_a_subchart_are_compared_with_the_subchart(tmp_path: Path) -> None:
    about = (
        f"name: {CHART}\nversion: 1.0.0\ndependencies: [{{name: sub, alias: nfd, condition: x}}]"
    )
    place = folder(tmp_path, "1.0.0", Chart_yaml=about)
    (tmp_path / "charts").mkdir()
    archive = charts.packed("sub", charts.files("sub", "2.0.0"))
    (tmp_path / "charts" / "sub-2.0.0.tgz").write_bytes(archive)
    good = {"nfd": {"image": {"tag": "x"}}, "x": True}
    assert why(place, "1.0.0", values=good, unknown=True) == ""
    bad = {"nfd": {"tag": "x"}}
    assert why(place, "1.0.0", values=bad, unknown=True).endswith("does not read: nfd.tag")


def test_a_known_version_is_declared_without_consent_and_an_unknown_one_with_it() -> None:
    with pytest.raises(ConfigError, match='add "unknownVersion: true"'):
        load(document(devicePlugin={"version": "0.17.1"}))
    consented = {"version": "0.17.1", "unknownVersion": True, "extraValues": {"newKey": 1}}
    declared = load(document(devicePlugin=consented))
    wanted = resolve(declared, "dev").question.chart
    assert wanted is not None
    assert (wanted.unknown, wanted.values["newKey"]) == (True, 1)


def test_a_chart_that_cannot_be_fetched_stops_the_run_before_any_host() -> None:
    declared = load(document())
    desired, found = resolve(declared, "dev"), Seen(cluster=ClusterSeen(chart="no answer"))
    (problem,) = judged(desired, found).problems
    assert problem.startswith("chart nvidia-device-plugin ")
    assert judged(desired, Seen()).problems == ()
    assert resolve(declared, "x").question.chart.place == resolve(declared, "dev").chart.place


def test_registries_of_images_are_named_once_as_engines_ask_them() -> None:
    mirrored = load(document(registry={"mirror": "registry.example.com:5000/gpu"}))
    assert registries(*deployed(mirrored)) == ("registry.example.com:5000",)
    places = registries(*deployed(load(document(platform="gpu-manager"))))
    assert "registry-1.docker.io:443" in places
    assert len(set(places)) == len(places)


@pytest.mark.parametrize(
    ("programs", "unreached"),
    [
        ({"curl": 'case "$*" in *good*) ;; *) exit 7 ;; esac'}, ("bad.example:443",)),
        ({"curl": "exit 7"}, ("bad.example:443", "good.example:5000")),
        ({"curl": "exit 0"}, ()),
        ({"curl": "exit 35"}, ()),  # a licence server without TLS
    ],
)
def test_a_host_tells_which_registries_do_not_answer(
    tmp_path: Path, programs: dict[str, str], unreached: tuple[str, ...]
) -> None:
    machine = Machine(tmp_path, "dash")
    for name, body in programs.items():
        machine.script(name, body)
    machine.environment["GC_PLACES"] = "good.example:5000 bad.example:443"
    assert parse(machine.lines()).unreached == unreached
    machine.file("run/gpu-cluster-simulated", "")
    assert parse(machine.lines()).unreached == ()


def test_a_registry_that_workers_do_not_reach_is_a_warning() -> None:
    declared = load(document())
    (registry, *_) = registries(*deployed(declared))
    away = HostFacts(simulated=True, unreached=(registry, "other.example:443"))
    told = judged(
        resolve(declared, "dev"),
        Seen(hosts=dict.fromkeys(("gpu-1", "gpu-2", "unknown"), away)),
    )
    warnings = [warning for warning in told.warnings if "no response from" in warning]
    assert [warning.partition(";")[0] for warning in warnings] == [
        f"hosts gpu-1, gpu-2: found no response from {registry}"
    ]
