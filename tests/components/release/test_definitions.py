"""CustomResourceDefinitions of a chart: who owns them when the chart's list changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpu_cluster.platforms.requests import DefinitionsRequest
from gpu_cluster.release import crds
from gpu_cluster.requests import PREVIOUS, write

Json = dict[str, Any]


class Definitions:
    """Fake API client of a cluster with CustomResourceDefinitions, but without custom objects."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)

    @contextlib.asynccontextmanager
    async def connect(self, _: str) -> AsyncIterator[Definitions]:
        yield self

    async def list(self, kind: str, **_: Any) -> list[Json]:
        if kind != "customresourcedefinitions":
            return []
        names = {"plural": "policies"}
        spec = {"group": "x", "names": names, "versions": [{"name": "v1", "storage": True}]}
        return [{"metadata": {"name": name}, "spec": spec} for name in sorted(self.names)]

    async def request(self, verb: str, path: str, **_: Any) -> None:
        assert verb == "DELETE"
        self.names.remove(path.rpartition("/")[2])


class Stack:
    """Runs the program `crds` like a Command that gets its previous output."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cluster: Definitions) -> None:
        self.monkeypatch, self.output = monkeypatch, ""
        monkeypatch.setattr(crds, "connect", cluster.connect)

    def note(self, *names: str) -> None:
        self.monkeypatch.setenv(PREVIOUS, self.output)
        self.output = write(asyncio.run(crds.note(DefinitionsRequest(context="x", names=names))))

    def remove(self, *names: str) -> Json:
        self.monkeypatch.setenv(PREVIOUS, self.output)
        return asyncio.run(crds.remove(DefinitionsRequest(context="x", names=names)))


def test_our_definitions_stay_ours_when_the_chart_s_list_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Definitions("theirs")
    stack = Stack(monkeypatch, cluster)
    stack.note("theirs", "a", "b")
    cluster.names |= {"a", "b"}  # The chart has created these definitions.
    # Other software has created this definition before the chart had one of the same name.
    cluster.names |= {"other"}
    stack.note("theirs", "b", "c", "other")
    cluster.names |= {"c"}
    stack.note("theirs", "b", "c", "other")
    assert stack.remove("theirs", "b", "c", "other")["removed"] == ["a", "b", "c"]
    assert cluster.names == {"theirs", "other"}


def test_what_was_there_before_the_first_chart_is_never_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Definitions("a")
    stack = Stack(monkeypatch, cluster)
    stack.note("a", "b")
    assert stack.remove("a", "b") == {"kept": [], "removed": []}
    assert cluster.names == {"a"}
