"""The preflight checks that charts and images can be downloaded before anything is changed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from components.charts import availability
from components.desired.resolve import resolve
from components.host_facts import HostFacts
from components.hosts.observed.probe import parse
from components.inspection.judgement import Seen, judged
from components.inspection.observed_cluster import ClusterSeen
from components.loading.loader import load
from components.platforms.needed import registries
from tests.fixtures.documents import document
from tests.fixtures.platforms import deployed
from tests.fixtures.probed import Machine

LIMIT = 20


class _Repository(BaseHTTPRequestHandler):
    """Fake chart repository with an index at one path; other paths return 404."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/charts/index.yaml" else 404)
        self.end_headers()
        self.wfile.write(b"apiVersion: v1\n" * 1000)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Repository)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join(LIMIT)
    server.server_close()


def why(place: str) -> str:
    return asyncio.run(availability.unreachable(place))


def test_a_repository_counts_only_with_its_index(repository: str) -> None:
    assert why(f"{repository}/charts") == ""
    assert why(f"{repository}/charts/") == ""
    assert why(repository).startswith("HTTP 404 from")


def test_a_place_that_does_not_answer_is_named_with_its_reason(repository: str) -> None:
    dead = "http://127.0.0.1:1"
    assert why(dead).startswith(f"no answer from {dead}/index.yaml (")
    assert why("oci://127.0.0.1:1/charts").startswith("no answer from https://127.0.0.1:1/v2/ (")


def test_a_folder_must_hold_the_chart(tmp_path: Path) -> None:
    assert why(str(tmp_path)) == "a folder without Chart.yaml"
    (tmp_path / "Chart.yaml").write_text("name: x\n")
    assert why(str(tmp_path)) == ""


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
    ],
)
def test_a_host_tells_which_registries_do_not_answer(
    tmp_path: Path, programs: dict[str, str], unreached: tuple[str, ...]
) -> None:
    machine = Machine(tmp_path, "dash")
    for name, body in programs.items():
        machine.script(name, body)
    machine.environment["GC_REGISTRIES"] = "good.example:5000 bad.example:443"
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
    warnings = [warning for warning in told.warnings if "no answer from" in warning]
    assert [warning.partition(";")[0] for warning in warnings] == [
        f"hosts gpu-1, gpu-2: found no answer from {registry}"
    ]
