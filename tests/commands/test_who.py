"""The table of `gpu-cluster who`: readable at 192 GPUs, with hostile names escaped."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from gpu_cluster.commands import who
from gpu_cluster.commands.node_table import WIDTH
from gpu_cluster.commands.usage import Listed, PodDevices, Usage, Utilization, usage
from gpu_cluster.commands.utilization import Measured, merge
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.kubernetes.hami import ALLOCATED, REGISTERED
from gpu_cluster.loading.loader import load
from gpu_rules.kube.gpu_resources import GPU
from tests.commands.usages import CREATED, claim, node, pod, slices
from tests.components.change.world import base

NOW = datetime(2026, 1, 4, 4, 4, 5, tzinfo=UTC)


def seen(**listed: list[dict[str, object]]) -> Usage:
    pods = tuple(map(PodDevices.of, listed.pop("pods", [])))
    others = {kind: tuple(of) for kind, of in listed.items()}
    return usage("dev", (), set(), Listed(pods=pods, **others))


def shown(found: Usage, *, single: bool = False) -> str:
    output = io.StringIO()
    console = Console(file=output, width=WIDTH, highlight=False, force_terminal=True)
    for table in who.tables(found, NOW, single=single):
        console.print(table)
    return output.getvalue() + "\n".join(who.last_lines(found))


@pytest.mark.promise(
    "`gpu-cluster who` names the pods that hold the GPUs of a node, and the free ones."
)
def test_each_pod_has_a_line_with_its_gpus_and_its_age() -> None:
    text = shown(seen(nodes=[node("gpu-1")], pods=[pod("team-a/train", "gpu-1")]))
    assert f"team-a/train: 2 {GPU}, 2 d" in text
    assert text.splitlines()[-1] == f"who: {GPU}: 2 of 8 held, 6 free"


@pytest.mark.promise("With HAMi, `gpu-cluster who` shows the memory and the cores of each pod.")
def test_shares_are_shown_by_memory_and_cores() -> None:
    shared = node("gpu-1", {GPU: "80"})
    shared["metadata"]["annotations"] = {
        REGISTERED: '[{"id": "GPU-1", "devmem": 81920, "devcore": 100, "health": true}]'
    }
    asked = pod("team-a/train", "gpu-1", {GPU: "1", "nvidia.com/gpumem": "3000"})
    asked["metadata"]["annotations"] = {ALLOCATED: "GPU-1,NVIDIA,3000,30:;"}
    text = shown(seen(nodes=[shared], pods=[asked]))
    assert "who: nvidia.com/gpucores: 30 of 100 held, 70 free" in text
    assert "who: nvidia.com/gpumem: 3000 of 81920 held, 78920 free" in text


@pytest.mark.promise(
    "`gpu-cluster who` counts against the declared GPUs, and says where the missing ones are."
)
def test_gpus_that_are_declared_and_not_advertised_are_counted_and_marked() -> None:
    pools = resolve(load(base()), "dev").validation.pools
    nodes = (node("gpu-1", {GPU: "7"}), node("gpu-2"), node("gpu-3", {GPU: "0"}), node("gpu-4"))
    pods = tuple(PodDevices.of(pod(f"team-a/train-{n}", f"gpu-{n}", {GPU: "4"})) for n in (1, 2, 3))
    text = shown(usage("dev", (), set(), Listed(nodes=nodes, pods=pods), pools))
    assert text.splitlines()[-1] == (
        f"who: {GPU}: 12 of 32 held, 15 free, 9 not advertised (gpu-1: 1, gpu-3: 8)"
    )
    plain = " ".join(text.replace("│", " ").split())
    assert "gpu-1 (1 not advertised)" in plain
    assert "gpu-3 (8 not advertised)" in plain
    assert plain.count("that are not advertised any more") == 1


def test_claims_are_named_with_the_pods_that_use_them() -> None:
    text = shown(
        seen(
            nodes=[node("gpu-1", {})],
            slices=[slices("gpu-1", 4)],
            pods=[pod("team-a/p-1", "gpu-1", {}), pod("team-a/p-2", "gpu-1", {})],
            claims=[claim("shared", "gpu-1", ["gpu-0"], ["team-a/p-1", "team-a/p-2"])],
        )
    )
    assert "team-a/shared: 1 gpu.nvidia.com, 2 d, ResourceClaim, shared by" in text


@pytest.mark.promise(
    "`gpu-cluster who` fits on one screen with 192 GPUs, each held by another pod."
)
def test_192_pods_on_192_gpus_are_told_by_namespace() -> None:
    nodes = [node(f"gpu-{n}") for n in range(24)]
    pods = [
        pod(f"team-{p % 2}/train-{n}-{p}", f"gpu-{n}", {GPU: "1"})
        for n in range(24)
        for p in range(8)
    ]
    text = shown(seen(nodes=nodes, pods=pods))
    assert len(text.splitlines()) <= 64
    assert f"team-0: 4 pods, 4 {GPU}, oldest 2 d" in text
    assert f"who: {GPU}: 192 of 192 held, 0 free" in text
    every = shown(seen(nodes=nodes, pods=pods), single=True)
    assert all(f"{each['metadata']['name']}:" in every for each in pods)


def test_idle_nodes_share_a_row_and_a_thousand_nodes_are_bounded() -> None:
    idle = shown(seen(nodes=[node(f"gpu-{n}") for n in range(1, 1001)]))
    assert "gpu-1..1000" in idle
    assert f"who: {GPU}: 0 of 8000 held, 8000 free" in idle
    pods = [pod(f"team-{n}/p", f"gpu-{n}") for n in range(1, 1001)]
    busy = shown(seen(nodes=[node(f"gpu-{n}") for n in range(1, 1001)], pods=pods))
    assert busy.count("and 940 more; --output json lists all") == 2


def test_free_gpus_of_nodes_that_take_no_pods_are_told_apart() -> None:
    text = shown(seen(nodes=[node("gpu-1", unschedulable=True), node("gpu-2")]))
    assert "gpu-1 (cordoned)" in text
    assert "0 of 16 held, 16 free, of them 8 on nodes that take no pods" in text


def test_pods_that_wait_are_named_and_counted() -> None:
    text = shown(seen(nodes=[node("gpu-1")], pods=[pod(f"t/p-{n}", "") for n in range(7)]))
    assert f"waiting for GPUs: t/p-0 (2 {GPU}), " in text
    assert " and 2 more" in text


def test_hostile_names_reach_no_terminal_and_no_style() -> None:
    evil = "team/[red]x\x1b[31m\n::error ::y\u202e"
    bad = pod("p", "gpu-1")
    bad["metadata"]["name"] = bad["metadata"]["namespace"] = evil
    waits = pod("q", "")
    waits["metadata"]["name"] = evil
    text = shown(seen(nodes=[node("gpu-1"), node(evil)], pods=[bad, waits]))
    # The library rich prints escape sequences itself, but none of these.
    for part in ("\x1b[31m", "\n::error", "\u202e"):
        assert part not in text
    assert "[red]x\\x1b[31m" in text.replace("\n", "")


def test_what_could_not_be_read_is_told() -> None:
    refused = Listed(nodes=(node("gpu-1"),), uninspected=("resourceclaims: forbidden\x1b",))
    text = "\n".join(who.last_lines(usage("dev", (), set(), refused)))
    assert (
        "not inspected: resourceclaims: forbidden\\x1b; GPUs that these use are missing here"
        in text
    )


def used(found: Usage, **percents: float) -> Usage:
    """Return a list of holders with utilization by name of a pod in namespace `team-a`."""
    at = datetime(2026, 1, 4, 4, 4, tzinfo=UTC)
    values = {
        ("team-a", name.replace("_", "-")): Utilization(percent=percent, at=at)
        for name, percent in percents.items()
    }
    return merge(found, Measured(values), NOW)


def test_idle_pods_are_marked_named_and_told_from_pods_that_compute() -> None:
    pods = [pod(name, "gpu-1") for name in ("train", "notebook", "other")]
    text = shown(used(seen(nodes=[node("gpu-1")], pods=pods), train=87.54, notebook=0))
    assert f"team-a/train: 2 {GPU}, 2 d, 87.5 %" in text
    assert f"team-a/notebook: 2 {GPU}, 2 d, idle" in text
    assert f"team-a/other: 2 {GPU}, 2 d\x20" in text
    idle, meaning, last = text.splitlines()[-3:]
    assert idle == f"idle, 0 % used: team-a/notebook (2 {GPU})"
    assert meaning.startswith("utilization of 2 of 3 pods, measured at 2026-01-04 04:04:00+00:00")
    assert "values of a moment, unless the metrics adapter averages them" in meaning
    assert last.startswith("who: ")


def test_idle_pods_of_a_namespace_are_counted_where_pods_share_a_line() -> None:
    nodes = [node(f"gpu-{n}") for n in range(21)]
    pods = [pod(f"p-{n}", f"gpu-{n // 2}", {GPU: "1"}) for n in range(42)]
    text = shown(used(seen(nodes=nodes, pods=pods), **{f"p_{n}": n for n in range(42)}))
    assert f"team-a: 2 pods, 2 {GPU}, oldest 2 d, 1 idle" in text
    assert text.count("idle") == 2


def test_why_utilization_is_missing_is_told_in_one_line() -> None:
    reasons = tuple(f"namespace team-{n}: no\x1b\n" for n in range(5))
    found = seen(nodes=[node("gpu-1")]).model_copy(update={"unmeasured": reasons})
    (line,) = (each for each in who.last_lines(found) if "utilization" in each)
    assert line.startswith("no utilization: namespace team-0: no\\x1b\\n; namespace team-1: ")
    assert line.endswith(" and 2 more")
    assert line.isprintable()


@pytest.mark.parametrize(
    ("created", "text"),
    [
        (CREATED, "2 d"),
        ("2026-01-04T04:04:00Z", "5 s"),
        ("2026-01-04T03:00:00Z", "1 h"),
        ("2026-01-04T05:00:00Z", "0 s"),
        ("", "?"),
        ("2026-01-04", "?"),
    ],
)
def test_an_age_has_its_largest_unit(created: str, text: str) -> None:
    assert who.age(created, NOW) == text
