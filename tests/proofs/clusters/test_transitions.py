"""Changes of a chart's version with the real charts: rendered, and on a real API server.

`GPU_CHARTS` names the charts' folder (docs/contributing.md). A default run takes a sample of the
transitions to the API server, which GPU_CLUSTER_TRANSITIONS_SEED chooses; FULL=1 takes all.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from gpu_cluster.charts.definitions import lacking_fields, lost_fields
from gpu_cluster.property_values import strings
from gpu_rules.facts.transitions import judge
from lab.benchmarks.api_server import running
from lab.helm import Helm
from tests.proofs.clusters.transitions import (
    Json,
    Pair,
    definitions,
    folder,
    pairs,
    rendered,
    sample,
)
from tests.proofs.platform.chart_folders import REAL

EVERY = pairs()
SAMPLE = sample(EVERY)
APPLY = {"content-type": "application/apply-patch+yaml"}
SECONDS = 60
"""Maximum seconds until the API server serves a definition."""

pytestmark = pytest.mark.skipif(REAL is None, reason="GPU_CHARTS names no folder of charts")


def marked(pair: Pair, kind: str) -> Any:
    marks = [pytest.mark.clusters(kind, str(pair))]
    if kind == "moved" and pair not in SAMPLE:
        marks.append(pytest.mark.full)
    return pytest.param(pair, id=str(pair), marks=marks)


RENDERED = [marked(pair, "rendered") for pair in EVERY]
MOVED = [marked(pair, "moved") for pair in EVERY]


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helm]:
    started = Helm(tmp_path_factory.mktemp("helm"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def api() -> Iterator[httpx.Client]:
    with running("transitions") as server:
        yield server.client


def needs(pair: Pair) -> None:
    for version in (pair.was, pair.now):
        if not folder(pair.chart, version).is_dir():
            pytest.skip("GPU_CHARTS lacks a version of the chart")


def test_at_least_forty_transitions_are_run_some_of_them_back() -> None:
    assert len(EVERY) >= 40
    assert sum(pair.is_back for pair in EVERY) >= 6
    assert len({pair.chart for pair in EVERY}) == 4


@pytest.mark.parametrize("pair", RENDERED)
def test_a_chart_changes_what_the_table_says(helm: Helm, pair: Pair) -> None:
    needs(pair)
    judged = judge(pair.chart, pair.was, pair.now)
    before, after = (definitions(pair.chart, version) for version in (pair.was, pair.now))
    differing = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    off = differing.difference(judged.definitions)
    assert {*judged.definitions} <= differing
    assert all(name.endswith("nfd.k8s-sigs.io") for name in off), off
    old, new = (list(strings(rendered(helm, pair.chart, v))) for v in (pair.was, pair.now))
    for part, was, now in judged.replaced:
        assert any(now.removeprefix("v") in text for text in new), (part, now)
        assert not was or any(was.removeprefix("v") in text for text in old), (part, was)


@pytest.mark.parametrize("pair", RENDERED)
def test_a_dropped_value_changes_nothing_of_the_new_chart(helm: Helm, pair: Pair) -> None:
    needs(pair)
    plain = rendered(helm, pair.chart, pair.now)
    for path in judge(pair.chart, pair.was, pair.now).dropped:
        for value in ("dropped", True, 4711):
            assert rendered(helm, pair.chart, pair.now, {path: value}) == plain, path


@pytest.mark.parametrize("pair", MOVED)
def test_the_objects_of_a_release_survive_the_change_of_its_chart(
    helm: Helm, api: httpx.Client, pair: Pair
) -> None:
    """Objects move to the new definitions without a loss, and back where that is supported."""
    needs(pair)
    server = Server(api)
    old, new = (rendered(helm, pair.chart, version) for version in (pair.was, pair.now))
    before, after = (definitions(pair.chart, version) for version in (pair.was, pair.now))
    judged = judge(pair.chart, pair.was, pair.now, ["nfd.enabled"])
    try:
        for definition in before.values():
            server.define(definition)
        for item in old:
            assert server.apply(item) == [], item["metadata"]["name"]
        # What the old definitions lack is lost until the new ones are applied: Helm updates none.
        lost = {server.definition_of(item) for item in new if server.apply(item)}
        assert lost <= {*judged.definitions}
        for name, definition in after.items():
            live = server.read("customresourcedefinitions", name, "apiextensions.k8s.io/v1")
            assert not live or not lacking_fields(live, definition) or name in judged.definitions
            server.define(definition)
        for item in new:
            assert server.apply(item) == [], item["metadata"]["name"]
        kept = {server.key(item) for item in new}
        for item in old:
            if server.key(item) not in kept:
                server.delete(item)
        for item in new:
            assert server.find(item), item["metadata"]["name"]
    finally:
        for item in (*new, *old):
            server.delete(item)
        for definition in (*after.values(), *before.values()):
            server.undefine(definition["metadata"]["name"])


class Server:
    """API server, asked as Helm asks it: each object by the path of its kind."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._kinds: dict[tuple[str, str], tuple[str, bool]] = {}

    def define(self, definition: Json) -> None:
        """Apply a definition, and wait until its versions are served."""
        name, spec = definition["metadata"]["name"], definition["spec"]
        url = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        answer = self._client.patch(
            f"{url}?fieldManager=helm&force=true", content=json.dumps(definition), headers=APPLY
        )
        assert answer.status_code in (200, 201), answer.text
        self._kinds.clear()
        versions = [version["name"] for version in spec["versions"] if version["served"]]
        for version in versions:
            listed = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
            self._wait(lambda listed=listed: self._client.get(listed).status_code == 200, listed)
        self._wait(lambda: self._is_current(url), url)

    def _is_current(self, url: str) -> bool:
        """Return whether the handlers of a changed definition have been replaced."""
        live = self._client.get(url).json()
        probe = self._client.get("/openapi/v3").status_code
        conditions = {item["type"]: item["status"] for item in live["status"]["conditions"]}
        return probe == 200 and conditions.get("Established") == "True"

    def undefine(self, name: str) -> None:
        url = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        self._client.delete(url)
        self._wait(lambda: self._client.get(url).status_code == 404, name)
        self._kinds.clear()

    def _wait(self, holds: Any, what: str) -> None:
        end = time.monotonic() + SECONDS
        while not holds():
            assert time.monotonic() < end, what
            time.sleep(0.05)

    def _url(self, item: Json) -> str:
        api_version, kind = item["apiVersion"], item["kind"]
        plural, is_namespaced = self._kind(api_version, kind)
        base = "/api/v1" if "/" not in api_version else f"/apis/{api_version}"
        space = item["metadata"].get("namespace") or "default"
        return f"{base}/namespaces/{space}/{plural}" if is_namespaced else f"{base}/{plural}"

    def _kind(self, api_version: str, kind: str) -> tuple[str, bool]:
        if (api_version, kind) not in self._kinds:
            base = "/api/v1" if "/" not in api_version else f"/apis/{api_version}"
            answer = self._client.get(base)
            for entry in answer.json().get("resources", ()) if answer.is_success else ():
                if "/" not in entry["name"]:
                    key = (api_version, entry["kind"])
                    self._kinds[key] = (entry["name"], entry["namespaced"])
        return self._kinds.get((api_version, kind), ("", False))

    def key(self, item: Json) -> tuple[str, str]:
        """Return an object's address; some charts write a namespace at kinds that have none."""
        return self._url(item), item["metadata"]["name"]

    def definition_of(self, item: Json) -> str:
        plural = self._kind(item["apiVersion"], item["kind"])[0]
        return f"{plural or item['kind']}.{item['apiVersion'].rpartition('/')[0]}"

    def apply(self, item: Json) -> list[str]:
        """Apply an object; return the fields that the API server dropped, or all without a kind."""
        plural, is_namespaced = self._kind(item["apiVersion"], item["kind"])
        if not plural:
            return ["*"]
        if is_namespaced and (space := item["metadata"].get("namespace")):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
            self._client.patch(
                f"/api/v1/namespaces/{space}?fieldManager=helm&force=true",
                content=json.dumps(body),
                headers=APPLY,
            )
        url = f"{self._url(item)}/{item['metadata']['name']}"
        answer = self._client.patch(
            f"{url}?fieldManager=helm&force=true", content=json.dumps(item), headers=APPLY
        )
        # Server-side apply refuses a field that no schema has, where an update drops it.
        if answer.status_code == 500 and "field not declared in schema" in answer.text:
            return ["*"]
        assert answer.status_code in (200, 201), answer.text
        spec = answer.json().get("spec")
        return list(lost_fields(item.get("spec"), spec)) if item.get("spec") else []

    def find(self, item: Json) -> bool:
        return self._client.get(f"{self._url(item)}/{item['metadata']['name']}").is_success

    def read(self, plural: str, name: str, api_version: str) -> Json | None:
        answer = self._client.get(f"/apis/{api_version}/{plural}/{name}")
        return answer.json() if answer.is_success else None

    def delete(self, item: Json) -> None:
        if self._kind(item["apiVersion"], item["kind"])[0]:
            name = item["metadata"]["name"]
            self._client.delete(f"{self._url(item)}/{name}?gracePeriodSeconds=0")
