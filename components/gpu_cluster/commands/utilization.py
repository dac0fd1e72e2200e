"""Read how busy the GPUs of pods are from the custom metrics API, for `gpu-cluster who`.

A metrics adapter, such as prometheus-adapter, serves this API from what NVIDIA's DCGM exporter
measured. The API server only forwards the adapter's responses, so they are validated here. Reading
the exporter itself needs the right `pods/proxy`, with which a user can also send requests to other
pods.

Source of the form: k8s.io/metrics v0.36.3 pkg/apis/custom_metrics, types.go of v1beta1 and v1beta2.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, Field, PlainValidator, ValidationError

from gpu_cluster.base.model import Model
from gpu_cluster.commands.usage import NAMED, Holder, Usage, Utilization
from gpu_cluster.kubernetes.api import Client, ClusterError, Refused
from gpu_cluster.kubernetes.gather import gather
from gpu_rules.faults import PartError, path_text
from gpu_rules.kube import quantity
from gpu_rules.printable import printable

GROUP: Final = "custom.metrics.k8s.io"
METRIC: Final = "DCGM_FI_DEV_GPU_UTIL"
"""Field of DCGM: utilization of a GPU in percent."""
OLDEST = timedelta(minutes=5)
"""Maximum age of a value, and maximum difference of clocks for a value from the future.

Prometheus doesn't return a sample that is older (`--query.lookback-delta`, by default 5 minutes).
"""
YOUNGEST = timedelta(minutes=2)
"""Minimum age of a pod at the time of the measurement.

Before, a value can be of an ended pod of the same name, because an adapter can report the time of
its query in place of the measurement's time, as prometheus-adapter does. Prometheus keeps a series
until it has read the exporter again (`scrape_interval`, by default 1 minute), and dcgm-exporter
measures every 30 s (`DCGM_EXPORTER_INTERVAL`).
"""
LIMIT = 10.0
"""Seconds for all requests together: a silent adapter must not hold up the list of holders."""
LARGEST = 16 * 1024 * 1024
"""Maximum number of bytes of a response."""
MOST = 50_000
"""Maximum number of values of a namespace."""
WINDOW = 366 * 86400
"""Maximum number of seconds that a value covers."""
SHOWN = 300
"""Maximum number of characters of a reason."""


def _validate_percent(value: Any) -> float:
    if not isinstance(value, str):
        raise PartError("a value that is not a quantity")
    # A pod has at most some dozens of GPUs; `merge` compares the utilization with their number.
    amount = quantity.parse(value)
    if not 0 <= amount.milli <= 10**9:
        raise PartError("a utilization below 0 or above 1,000,000")
    return amount.milli / 1000


Name = Annotated[str, Field(min_length=1, max_length=NAMED)]
Percent = Annotated[float, PlainValidator(_validate_percent)]
Seconds = Annotated[int, Field(ge=0, le=WINDOW)]


class _Response(Model, extra="ignore", strict=True):
    """A part of a response; later versions of the API may add fields."""


class _Pod(_Response):
    kind: Literal["Pod"]
    namespace: Name
    name: Name


class _Identifier(_Response):
    name: Literal["DCGM_FI_DEV_GPU_UTIL"]


class _Value(_Response):
    described_object: _Pod
    timestamp: AwareDatetime
    value: Percent


class _V1Beta1(_Value):
    metric_name: Literal["DCGM_FI_DEV_GPU_UTIL"]
    window: Seconds | None = None


class _V1Beta2(_Value):
    metric: _Identifier
    window_seconds: Seconds | None = None


class _V1Beta1List(_Response):
    items: Annotated[tuple[_V1Beta1, ...], Field(max_length=MOST)]


class _V1Beta2List(_Response):
    items: Annotated[tuple[_V1Beta2, ...], Field(max_length=MOST)]


class _Version(_Response):
    version: Name


class _Group(_Response):
    versions: Annotated[tuple[_Version, ...], Field(max_length=100)]


LISTS: Mapping[str, type[_V1Beta1List] | type[_V1Beta2List]] = {
    "v1beta2": _V1Beta2List,
    "v1beta1": _V1Beta1List,
}
"""Form of a response by API version, the preferred version first."""


class MeasuringError(PartError):
    """A response about utilization can't be used; the text is one printable line."""


@dataclass(frozen=True)
class Measured:
    """Response of the custom metrics API.

    Attributes:
        values: Utilization by namespace and name of a pod.
        missing: Why values are missing.
    """

    values: dict[tuple[str, str], Utilization] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def read_versions(body: bytes) -> list[str]:
    """Return the versions in a response to discovery of the group.

    Raises:
        MeasuringError: The response is not an APIGroup.
    """
    try:
        return [served.version for served in _Group.model_validate_json(body).versions]
    except ValidationError as error:
        raise _unusable_response(error) from None


def read_values(version: str, namespace: str, body: bytes) -> dict[str, Utilization]:
    """Return the utilization by name of a pod, from a MetricValueList of a namespace.

    Raises:
        MeasuringError: The response is not such a list, or names another namespace's pod or a pod
            twice.
    """
    try:
        items = LISTS[version].model_validate_json(body).items
    except ValidationError as error:
        raise _unusable_response(error) from None
    by_pod: dict[str, Utilization] = {}
    for item in items:
        pod = item.described_object
        if pod.namespace != namespace:
            raise MeasuringError(f"a value for namespace {printable(pod.namespace, SHOWN)}")
        if pod.name in by_pod:
            raise MeasuringError(f"two values for pod {printable(pod.name, SHOWN)}")
        seconds = item.window if isinstance(item, _V1Beta1) else item.window_seconds
        by_pod[pod.name] = Utilization(
            percent=item.value, at=item.timestamp, window_seconds=seconds or None
        )
    return by_pod


def _unusable_response(error: ValidationError) -> MeasuringError:
    # The input is left out, because it may be anything.
    first = error.errors(include_input=False, include_context=False, include_url=False)[0]
    place = f"{printable(path_text(first['loc']), SHOWN)}: " if first["loc"] else ""
    return MeasuringError(f"{place}{printable(first['msg'], SHOWN)}")


async def measured(client: Client, namespaces: Collection[str]) -> Measured:
    """Read the utilization of the pods of namespaces, with one request for each.

    Errors are reasons in the result: the list of holders is useful without utilization.
    """
    measurements = Measured()
    if not namespaces:
        return measurements
    try:
        async with asyncio.timeout(LIMIT):
            if version := await _served_version(client, measurements):
                await gather(
                    lambda space: _read_namespace(client, version, space, measurements), namespaces
                )
    except TimeoutError:
        measurements.missing.append(f"no response of {GROUP} within {LIMIT:.0f} s")
    return Measured(measurements.values, sorted(measurements.missing))


async def _served_version(client: Client, measurements: Measured) -> str:
    """Return the API version to request; empty if there is none; note the reason."""
    try:
        versions = read_versions(await client.read(f"/apis/{GROUP}", LARGEST))
    except Refused as error:
        served = "the cluster does not serve" if error.code == 404 else "the API server refuses"
        detail = "" if error.code == 404 else f": {printable(error.message, SHOWN)}"
        measurements.missing.append(f"{served} {GROUP}{detail}")
        return ""
    except (ClusterError, MeasuringError) as error:
        measurements.missing.append(f"{GROUP}: {printable(str(error), SHOWN)}")
        return ""
    chosen = next((version for version in LISTS if version in versions), "")
    if not chosen:
        measurements.missing.append(f"the cluster serves {GROUP} without {' or '.join(LISTS)}")
    return chosen


async def _read_namespace(
    client: Client, version: str, namespace: str, measurements: Measured
) -> None:
    path = f"/apis/{GROUP}/{version}/namespaces/{namespace}/pods/*/{METRIC}"
    try:
        values = read_values(version, namespace, await client.read(path, LARGEST))
    except Refused as error:
        reason = error.message
    except (ClusterError, MeasuringError) as error:
        reason = str(error)
    else:
        measurements.values.update({(namespace, name): value for name, value in values.items()})
        return
    measurements.missing.append(
        f"namespace {printable(namespace, SHOWN)}: {printable(reason, SHOWN)}"
    )


def namespaces(usage: Usage) -> list[str]:
    """Return the namespaces with pods that hold GPUs."""
    return sorted({holder.namespace for holder in holders(usage) if holder.kind == "Pod"})


def holders(usage: Usage) -> Iterator[Holder]:
    """Yield the pods and claims that hold GPUs, by node."""
    for node in usage.nodes:
        yield from node.holders


def merge(usage: Usage, measurements: Measured, now: datetime) -> Usage:
    """Return a list of holders with utilization, and with idle pods marked.

    A value counts for a pod only if it is of the present and of this pod: not older than `OLDEST`,
    of a pod that then was not younger than `YOUNGEST`, and at most 100 % for each device that the
    pod holds.

    Args:
        usage: Who holds which GPUs.
        measurements: What the custom metrics API returned; values of other pods are left out.
        now: Time from which the age of a value is counted.
    """
    refused: Counter[str] = Counter()

    def marked(holder: Holder) -> Holder:
        value = measurements.values.get((holder.namespace, holder.name))
        if value is None or holder.kind != "Pod":
            return holder
        if reason := _refusal_reason(holder, value, now):
            refused[reason] += 1
            return holder
        return holder.model_copy(update={"utilization": value, "idle": value.percent == 0})

    nodes = tuple(
        node.model_copy(update={"holders": tuple(map(marked, node.holders))})
        for node in usage.nodes
    )
    reasons = [f"{number} × {reason}" for reason, number in sorted(refused.items())]
    return usage.model_copy(
        update={"nodes": nodes, "unmeasured": (*measurements.missing, *reasons)}
    )


def _refusal_reason(holder: Holder, value: Utilization, now: datetime) -> str:
    """Return why a value is not used for a pod; empty if it is used."""
    if abs(now - value.at) > OLDEST:
        return (
            f"a value of more than {_whole_minutes(OLDEST)} min before or after this machine's time"
        )
    try:
        young = value.at - datetime.fromisoformat(holder.created) < YOUNGEST
    except (ValueError, TypeError):
        return "a value of a pod without a time of creation"
    if young:
        return f"a value of a pod younger than {_whole_minutes(YOUNGEST)} min"
    if value.percent > 100 * sum(holder.amounts.values()):
        return "a value above 100 % for each GPU of the pod"
    return ""


def _whole_minutes(span: timedelta) -> int:
    return int(span.total_seconds() // 60)
