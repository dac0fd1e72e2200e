"""Each of the seven ways of deploying GPU software: install it, run `up` again, and remove it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.kubernetes.api import Client, ClusterError
from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.requests import Expected
from gpu_cluster.release import presence
from gpu_cluster.release.helm_record import newest
from gpu_cluster.release.objects import Kinds, ObjectsSeen, observe_objects
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import Project, figures
from tests.proofs.platform import ways
from tests.proofs.platform.ways import ALL, served

pytestmark = pytest.mark.slow

Json = dict[str, Any]


# `make test` only runs the way of deploying that creates most objects of this project. The full
# test runs all ways.
SLICE = "gpu-manager"
EACH = [
    pytest.param(way, marks=[] if way == SLICE else [pytest.mark.full], id=way) for way in ways.WAYS
]


@pytest.mark.platform
@pytest.mark.parametrize("way", EACH)
def test_a_platform_comes_up_stays_as_it_is_and_goes_without_a_trace(
    project: Project, way: str
) -> None:
    served(project, way)
    before = snapshot.cluster(project)
    project.write(ways.declared(project.stack, way))
    validated, wanted, changed = figures(project.up())
    assert (validated, wanted) == (ALL, ALL)
    assert changed > 0
    assert figures(project.up()) == (validated, wanted, 0)
    _withhold_each(project, ways.declared(project.stack, way))
    done = project.command("destroy")
    assert done.returncode == 0, done.stdout
    assert snapshot.cluster(project) == before


def _withhold_each(project: Project, declared: Json) -> None:
    """Delete each object in turn: the platform's check must report the missing object.

    CustomResourceDefinitions are skipped, because deleting one deletes all objects of its kind.
    """
    cluster = load(declared)
    wanted = resolve(cluster, "test").presence

    async def withhold(client: Client) -> tuple[int, list[str]]:
        release = wanted.release
        record = await newest(client, release)
        assert record
        items = [*record.objects(), *wanted.objects]
        kinds, unseen = Kinds(client), []
        checked = [item for item in items if item.kind != "CustomResourceDefinition"]
        for item in checked:
            where = await kinds.url(_placed(item, release.namespace))
            assert where, item
            path, base, version = where
            result = await client.request("GET", path, base=base, version=version)
            await client.request(
                "DELETE",
                path,
                base=base,
                version=version,
                body={"propagationPolicy": "Foreground"},
            )
            await _gone(client, where)
            try:
                await presence._check_presence(client, wanted)
                unseen.append(str(item))
            except ClusterError as error:
                if str(item) not in str(error):
                    unseen.append(str(item))
            await client.request(
                "POST", path.rpartition("/")[0], base=base, version=version, body=_again(result)
            )
        assert await observe_objects(client, wanted) == ObjectsSeen()
        return len(checked), unseen

    count, unseen = project.ask(withhold)
    assert unseen == []
    assert count >= 4


def _placed(item: Expected, namespace: str) -> Expected:
    return replace(item, namespace=item.namespace or namespace)


async def _gone(client: Client, where: tuple[str, str, str]) -> None:
    path, base, version = where
    for _ in range(300):
        try:
            await client.request("GET", path, base=base, version=version)
        except ClusterError:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{path} is still there")


def _again(found: Json) -> Json:
    """Return a copy of an object that can be created again, without the API server's fields."""
    body: Json = json.loads(json.dumps(found))
    body.pop("status", None)
    for key in ("resourceVersion", "uid", "creationTimestamp", "managedFields", "generation"):
        body["metadata"].pop(key, None)
    body["metadata"].pop("finalizers", None)
    return body
