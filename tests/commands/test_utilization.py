"""Utilization from the custom metrics API: both versions, strict responses, and idle pods."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from gpu_cluster.commands import utilization as module
from gpu_cluster.commands.usage import Holder, Listed, PodDevices, Usage, usage
from gpu_cluster.commands.utilization import (
    GROUP,
    METRIC,
    OLDEST,
    Measured,
    MeasuringError,
    holders,
    measured,
    merge,
    namespaces,
    read_values,
)
from gpu_cluster.kubernetes.resources import DRA_DRIVER
from gpu_rules.kube.gpu_resources import GPU
from tests.commands.metrics import VERSIONS, group, value, values
from tests.commands.usages import claim, node, pod, slices
from tests.fixtures.api import client

NOW = datetime(2026, 1, 4, 4, 4, 5, tzinfo=UTC)
AT = "2026-01-04T04:04:00Z"
BASE = f"/apis/{GROUP}"
OTHER_TIME = "1 × a value of more than 5 min before or after this machine's time"


def seen(*pods: str) -> Usage:
    listed = tuple(PodDevices.of(pod(name, "gpu-1")) for name in pods)
    return usage("dev", (), set(), Listed(nodes=(node("gpu-1"),), pods=listed))


def by_name(shown: Usage) -> dict[str, Holder]:
    return {each.name: each for each in holders(shown)}


def taken(version: str, response: Any) -> Measured:
    body = json.dumps(response).encode()
    read = read_values(version, "team-a", body)
    return Measured({("team-a", name): each for name, each in read.items()})


def merged(amount: str, at: str = AT) -> Usage:
    found = taken("v1beta2", values("v1beta2", {"team-a/train": amount}, at))
    return merge(seen("team-a/train"), found, NOW)


def asking(answer: Callable[[str], httpx.Response], *spaces: str) -> tuple[Measured, list[str]]:
    asked = []

    def respond(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path.decode())
        return answer(asked[-1])

    return asyncio.run(measured(client(respond), spaces)), asked


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("amount", "percent"), [("0", 0), ("87500m", 87.5), ("100", 100)])
def test_a_pod_has_its_utilization_and_is_idle_at_0_percent(
    version: str, amount: str, percent: float
) -> None:
    found = taken(version, values(version, {"team-a/train": amount}, AT, 60))
    train = by_name(merge(seen("team-a/train"), found, NOW))["train"]
    assert train.utilization is not None
    assert (train.utilization.percent, train.idle) == (percent, percent == 0)
    assert train.utilization.at == datetime(2026, 1, 4, 4, 4, tzinfo=UTC)
    assert train.utilization.window_seconds == 60


def test_a_tiny_utilization_is_not_idle() -> None:
    assert not by_name(merged("1n"))["train"].idle


def test_values_of_pods_that_hold_no_gpu_are_left_out() -> None:
    found = taken("v1beta2", values("v1beta2", {"team-a/gone": "0"}, AT))
    assert by_name(merge(seen("team-a/train"), found, NOW))["train"].utilization is None


def test_a_shared_claim_is_never_marked() -> None:
    shown = usage("dev", (), set(), Listed(
        nodes=(node("gpu-1", {}),),
        slices=(slices("gpu-1", 4),),
        claims=(claim("train", "gpu-1", ["gpu-0"], []),),
    ))  # fmt: skip
    found = taken("v1beta2", values("v1beta2", {"team-a/train": "0"}, AT))
    (only,) = holders(merge(shown, found, NOW))
    assert (only.kind, only.idle, only.amounts) == ("ResourceClaim", False, {DRA_DRIVER: 1})
    assert namespaces(shown) == []


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (NOW - OLDEST, ""),
        (NOW + OLDEST, ""),
        (NOW - OLDEST - timedelta(seconds=1), OTHER_TIME),
        (NOW + OLDEST + timedelta(seconds=1), OTHER_TIME),
        (datetime.min.replace(tzinfo=UTC), OTHER_TIME),
    ],
)
def test_a_value_of_another_time_is_not_taken_for_the_present(at: datetime, told: str) -> None:
    shown = merged("0", at.isoformat())
    assert by_name(shown)["train"].idle == (not told)
    assert shown.unmeasured == ((told,) if told else ())


@pytest.mark.parametrize(
    ("created", "idle"),
    [("2026-01-04T04:02:00Z", True), ("2026-01-04T04:02:01Z", False), ("", False), ("x", False)],
)
def test_a_young_pod_is_not_judged_by_the_values_of_an_ended_pod_of_its_name(
    created: str, idle: bool
) -> None:
    late = pod("team-a/train-0", "gpu-1")
    late["metadata"]["creationTimestamp"] = created
    shown = usage("dev", (), set(), Listed(nodes=(node("gpu-1"),), pods=(PodDevices.of(late),)))
    found = taken("v1beta2", values("v1beta2", {"team-a/train-0": "0"}, AT))
    after = merge(shown, found, NOW)
    assert by_name(after)["train-0"].idle == idle
    assert len(after.unmeasured) == (not idle)


def test_the_sum_of_a_pods_gpus_is_taken_and_more_is_refused() -> None:
    assert by_name(merged("200"))["train"].utilization is not None
    refused = merged("201")
    assert by_name(refused)["train"].utilization is None
    assert refused.unmeasured == ("1 × a value above 100 % for each GPU of the pod",)


def one(**changed: Any) -> Any:
    """Return a response with one valid value, of which parts are replaced."""
    return {"items": [{**value("v1beta2", "team-a/train", "0", AT), **changed}]}


@pytest.mark.parametrize(
    ("response", "told"),
    [
        ([], "should be an object"),
        ({}, "items: Field required"),
        ({"items": None}, "items: "),
        (one(value=0), "a value that is not a quantity"),
        (one(value="-1"), "below 0 or above"),
        (one(value="1e30"), "below 0 or above"),
        (one(value="x\x1b[31m"), "is not a quantity"),
        (one(value=None), "a value that is not a quantity"),
        (one(timestamp=None), "timestamp: "),
        (one(timestamp="2026-01-04T04:04:00"), "timezone"),
        (one(timestamp="yesterday"), "timestamp: "),
        (one(metric={"name": "DCGM_FI_DEV_GPU_TEMP"}), "metric.name: "),
        (one(windowSeconds=-1), "windowSeconds: "),
        (one(windowSeconds="60"), "windowSeconds: "),
        (one(describedObject={"kind": "Node", "name": "gpu-1", "namespace": "team-a"}), "kind: "),
        (one(describedObject={"kind": "Pod", "name": "x" * 999, "namespace": "team-a"}), "name: "),
        (one(describedObject={"kind": "Pod", "name": "p", "namespace": "b"}), "namespace b"),
        ({"items": one()["items"] * 2}, "two values for pod train"),
        ({"items": one()["items"] * (module.MOST + 1)}, "items: "),
    ],
)
def test_a_response_of_another_form_is_refused_as_a_whole(response: Any, told: str) -> None:
    with pytest.raises(MeasuringError, match=told) as raised:
        taken("v1beta2", response)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 3 * module.SHOWN


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(MeasuringError):
        read_values("v1beta1", "team-a", body)
    with pytest.raises(MeasuringError):
        module.read_versions(body)


@pytest.mark.parametrize(
    ("served", "version"),
    [
        (("v1beta1", "v1beta2"), "v1beta2"),
        (("v1beta2",), "v1beta2"),
        (("v1beta1",), "v1beta1"),
        (("v1beta3", "v1beta1"), "v1beta1"),
    ],
)
def test_each_namespace_is_read_by_one_request_in_the_newest_known_version(
    served: tuple[str, ...], version: str
) -> None:
    def answer(path: str) -> httpx.Response:
        if path == BASE:
            return httpx.Response(200, json=group(*served))
        space = path.split("/")[5]
        return httpx.Response(200, json=values(version, {f"{space}/p": "5"}, AT))

    found, asked = asking(answer, "team-a", "team-b")
    paths = [
        f"{BASE}/{version}/namespaces/{space}/pods/*/{METRIC}" for space in ("team-a", "team-b")
    ]
    assert sorted(asked) == sorted([BASE, *paths])
    assert set(found.values) == {("team-a", "p"), ("team-b", "p")}
    assert found.missing == []


def test_nothing_is_requested_if_no_pod_holds_a_gpu() -> None:
    assert asking(lambda _: httpx.Response(500)) == (Measured(), [])


@pytest.mark.parametrize(
    ("response", "told"),
    [
        (httpx.Response(404, json={"message": "no"}), f"the cluster does not serve {GROUP}"),
        (httpx.Response(403, json={"message": "no\x1b"}), f"the API server refuses {GROUP}: no"),
        (httpx.Response(503, text="down"), f"the API server refuses {GROUP}: down"),
        (httpx.Response(200, json=group("v2")), f"the cluster serves {GROUP} without v1beta2 or"),
        (httpx.Response(200, text="{}"), f"{GROUP}: versions: Field required"),
        (httpx.Response(302, headers={"location": "/other"}), f"the API server refuses {GROUP}"),
    ],
)
def test_a_cluster_without_the_api_gives_one_reason(response: httpx.Response, told: str) -> None:
    found, asked = asking(lambda _: response, "team-a", "team-b")
    assert asked == [BASE]
    (reason,) = found.missing
    assert reason.startswith(told)
    assert reason.isprintable()


def test_a_namespace_that_is_refused_leaves_the_others_their_values() -> None:
    def answer(path: str) -> httpx.Response:
        if path == BASE:
            return httpx.Response(200, json=group("v1beta2"))
        if "/team-b/" in path:
            return httpx.Response(403, json={"message": "forbidden"})
        return httpx.Response(200, json=values("v1beta2", {"team-a/p": "5"}, AT))

    found, _ = asking(answer, "team-a", "team-b")
    assert set(found.values) == {("team-a", "p")}
    assert found.missing == ["namespace team-b: forbidden"]


def test_a_longer_response_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 10)
    found, _ = asking(lambda _: httpx.Response(200, json=group("v1beta2")), "team-a")
    (reason,) = found.missing
    assert "more than 10 bytes" in reason


def test_a_silent_adapter_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT", 0.01)

    async def silent(_: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    found = asyncio.run(measured(client(silent), ["team-a"]))  # type: ignore[arg-type]
    assert found.missing == [f"no response of {GROUP} within 0 s"]


def test_a_hostile_namespace_leads_to_no_other_path() -> None:
    found, asked = asking(
        lambda _: httpx.Response(200, json=group("v1beta2")), "../../../api/v1/secrets", "a?b"
    )
    assert asked == [BASE]
    assert len(found.missing) == 2


def test_amounts_of_the_helper_are_those_of_two_gpus() -> None:
    assert by_name(seen("team-a/train"))["train"].amounts == {GPU: 2}
