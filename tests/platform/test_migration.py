"""From each way to each other: never two at once, and nothing of the former stays."""

from __future__ import annotations

import itertools
import threading
import time

import pytest

from facts.api import Client
from operations.leftovers import SERVERS
from tests.e2e import snapshot
from tests.e2e.project import Project

from . import ways
from .test_platforms import ALL, figures, served

PAIRS = [
    pytest.param(old, new, marks=pytest.mark.full, id=f"{old}-to-{new}")
    for old, new in itertools.permutations(ways.WAYS, 2)
]


class Watch:
    """Looks, as long as a run goes on, at which platforms' pods serve GPUs at the same time."""

    def __init__(self, project: Project) -> None:
        self.seen: set[frozenset[str]] = set()
        self._project = project
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=30)

    def _look(self) -> None:
        async def serving(client: Client) -> None:
            while not self._stop.is_set():
                at_once = set()
                for name, selector in SERVERS.items():
                    pods = await client.list("pods", labelSelector=selector)
                    if any(pod["status"].get("phase") == "Running" for pod in pods):
                        at_once.add(name)
                self.seen.add(frozenset(at_once))
                time.sleep(0.1)

        self._project.ask(serving)


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_one_platform_follows_another_and_never_beside_it(
    project: Project, old: str, new: str
) -> None:
    for way in (old, new):
        served(project, way)
    before = snapshot.cluster(project)
    project.write(ways.declared(project.stack, old))
    assert figures(project.up())[:2] == (ALL, ALL)
    project.write(ways.declared(project.stack, new))
    with Watch(project) as watch:
        assert figures(project.up())[:2] == (ALL, ALL)
    assert max(map(len, watch.seen)) == 1, watch.seen
    assert figures(project.up()) == (ALL, ALL, 0)
    done = project.command("destroy")
    assert done.returncode == 0, done.stdout
    assert snapshot.cluster(project) == before
