"""Reports about made-up clusters: the program's functions read invented Node objects."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from datetime import date
from functools import cache
from typing import Any

from gpu_cluster.change.document import (
    ClusterChange,
    Document,
    Gap,
    Loss,
    NodeChange,
    Numbers,
    Outage,
    Outcome,
    PodChange,
    PoolChange,
    Problem,
    Statement,
    VersionChange,
)
from gpu_cluster.commands.report.gpu_map import PoolGpus, pools_of
from gpu_cluster.commands.report.page import Report
from gpu_cluster.commands.report.software import software_of
from gpu_cluster.findings import Aspect
from gpu_cluster.nodes import record
from gpu_cluster.validation.measurement import Outcome as Figure
from tests.components.change.world import World, base, desired_of

Json = dict[str, Any]
DAY = date(2026, 11, 26)


def pools(
    world: World, document: Json, resting: dict[str, str] | None = None
) -> tuple[PoolGpus, ...]:
    desired = desired_of(document)
    nodes = list(world.nodes.values())
    return pools_of(desired.scheduling, desired.validation, nodes, resting or {})


@cache
def of_size(nodes: int) -> Report:
    """Return a report of a cluster in which each fourth node has something to report."""
    document: Json = {**base(), "hosts": []}
    first = next(iter(World.of(document).nodes.values()))
    document["pools"] = [{"name": "a100", "nodes": [f"gpu-[1-{nodes}]"], "gpusPerNode": 8}]
    names = [f"gpu-{number}" for number in range(1, nodes + 1)]
    world = World(nodes={name: copy.deepcopy(first) for name in names})
    for number, (name, node) in enumerate(world.nodes.items()):
        node["metadata"]["name"] = name
        node["status"]["nodeInfo"] |= {
            "kubeletVersion": "v1.34.4",
            "containerRuntimeVersion": "containerd://1.7.28",
            "osImage": "Ubuntu 22.04.5 LTS",
        }
        if number % 4 == 1:
            node["status"]["allocatable"]["nvidia.com/gpu"] = "6"
        if number % 4 == 2:
            defer(node, 3, "3 of team-a/train-0")
        if number % 4 == 3:
            node["metadata"]["annotations"].pop(record.RECORD)
    changed = tuple(
        NodeChange(
            node=name,
            was="a100",
            pool="a100",
            gpus=Numbers(before=8, after=4),
            outage=Outage.ROLLOUT,
            wave=number,
            drained=True,
            validated=True,
        )
        for number, name in enumerate(names, 1)
    )
    cluster = ClusterChange(
        name="dev",
        pools=(PoolChange(pool="a100", gpus=Numbers(before=8 * nodes, after=4 * nodes)),),
        nodes=changed,
        pods=tuple(
            PodChange(namespace="team-a", name=f"p-{n}", node=n, gpus=8, loss=Loss.EVICTED)
            for n in names
        ),
        gaps=(Gap(why="drained", nodes=tuple(names), gpus=8 * nodes, at_most=8),),
        versions=(VersionChange(part="driver", where=tuple(names), was="595.1", now="580.1"),),
        drift=(
            Statement(
                subject="node", names=tuple(names), aspect=Aspect.LABEL, key="a", was="b", now="c"
            ),
        ),
    )
    rules = (Problem(text="pool a100: advice", rule="GPU049", mandatory=False),)
    return Report(
        stack="dev",
        document=Document(stack="dev", outcome=Outcome.CHANGED, clusters=(cluster,), rules=rules),
        pools=pools(world, document),
        software=software_of(world.nodes.values(), ["550.54.14"], DAY),
        figures=tuple(
            Figure("all-reduce", name, "a100", 400.0 + number, 350.0, at="2026-11-26T10:00:00Z")
            for number, name in enumerate(names)
        ),
        day=DAY,
    )


def hostile(text: str) -> Report:
    """Return a report with the same text in every field that can have text from outside."""
    cut = text[: 64 * 1024]
    problem = Problem(text=cut, rule=cut, file=cut, line=3)
    statement = Statement(
        subject="node", names=(cut,), aspect=Aspect.VALUE, key=cut, was=cut, now=cut
    )
    cluster = ClusterChange(
        name=cut,
        unknown=cut,
        pools=(PoolChange(pool=cut, gpus=Numbers(before=8, after=4)),),
        nodes=(NodeChange(node=cut, was=cut, pool="b", drained=True),),
        pods=(PodChange(namespace=cut, name=cut, node=cut, gpus=1, loss=Loss.EVICTED),),
        gaps=(Gap(why=cut, nodes=(cut,), gpus=8, at_most=8),),
        versions=(VersionChange(part=cut, where=(cut,), was=cut, now=cut),),
        files=(statement,),
        changes=(statement,),
        drift=(statement,),
        due=(statement,),
        faults=(problem,),
        warnings=(problem,),
        uninspected=(cut,),
        notes=(cut,),
        maintenance=(cut,),
    )
    document = Document(
        stack=cut,
        outcome=Outcome.FAILED,
        clusters=(cluster, cluster),
        rules=(problem,),
        faults=(problem,),
        cause=cut,
    )
    small = of_size(4)
    nodes = tuple(
        replace(node, name=cut, held=cut, note=cut, since=cut) for node in small.pools[0].nodes
    )
    return replace(
        small,
        stack=cut,
        document=document,
        pools=(PoolGpus(name=cut, nodes=nodes, problem=cut),),
        software=tuple(
            replace(each, version=cut, nodes=(cut,), source=cut) for each in small.software
        ),
        figures=(Figure(cut, cut, cut, 1.0, 2.0, cut, cut, at=cut),),
        unknown=(cut,),
    )


def defer(node: Json, count: int, held: str) -> None:
    """Change a node's validation record so that the validation of some GPUs is deferred."""
    kept = json.loads(node["metadata"]["annotations"][record.RECORD])
    kept["devices"] = dict(list(kept["devices"].items())[count:])
    kept |= {"missing": count, "held": held, "holders": "abcdef"}
    node["metadata"]["annotations"][record.RECORD] = json.dumps(kept)
