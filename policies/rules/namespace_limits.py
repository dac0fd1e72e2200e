"""LimitRange and ResourceQuota: limits of a namespace that do not do what they say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from policies.rules.context import Context, Severity
from policies.rules.pod_spec import Resource, resource_list
from policies.rules.resource_names import is_gpu
from policies.rules.rule import Finding, Rule, Subject
from policies.rules.unknown import UNKNOWN, at, mapping, sequence

_FIELDS = ("max", "default", "defaultRequest", "min")
# HAMi reads these quota keys itself: pkg/device/quota.go.
_HAMI = frozenset({"limits.nvidia.com/gpumem", "limits.nvidia.com/gpucores"})


def _hands_out(lists: Mapping[str, Mapping[str, Resource]], name: str) -> Resource | None:
    """The entry by which a Container item gives devices to containers that ask for none.

    SetDefaults_LimitRangeItem: the limit defaults to `max`, the request to limit or `min`.
    """
    limit = lists["default"].get(name) or lists["max"].get(name)
    for entry in (limit, lists["defaultRequest"].get(name), lists["min"].get(name)):
        if entry and entry.quantity and entry.quantity.milli > 0:
            return entry
    return None


def _limit_range(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.kind != "LimitRange":
        return
    for index, item in enumerate(sequence(at(subject.manifest, "spec", "limits"))):
        path = f"spec.limits[{index}]"
        raw = mapping(item)
        lists = {key: resource_list(raw.get(key), f"{path}.{key}") for key in _FIELDS}
        names = sorted({n for each in lists.values() for n in each if is_gpu(n, context)})
        if any(raw.get(key) is UNKNOWN for key in _FIELDS):
            continue
        for name in names:
            if raw.get("type") == "Container" and (entry := _hands_out(lists, name)):
                yield Finding(
                    path=entry.path,
                    found=f"{entry.quantity}, given to every container that asks for none",
                    wanted=f"no {name} here",
                    cure=f"Limit GPUs by a ResourceQuota on requests.{name}.",
                )
            if raw.get("type") == "Pod" and (lists["max"].get(name) or lists["min"].get(name)):
                yield Finding(
                    path=path,
                    found=f"{name} in limits of type Pod",
                    wanted=f"no {name} here",
                    cure="Remove it: every pod without GPUs would be refused.",
                )


def _quota(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.kind != "ResourceQuota":
        return
    for key in mapping(at(subject.manifest, "spec", "hard")):
        name = key.removeprefix("limits.")
        if key not in _HAMI and is_gpu(name, context):
            yield Finding(
                path=f"spec.hard[{key}]",
                found=f"{key}, which nothing counts",
                wanted=f"requests.{name}",
                cure="Name the resource with requests. before it.",
            )


RULES = (
    Rule(
        id="GPU012",
        title="A LimitRange hands out no GPUs",
        severity=Severity.MANDATORY,
        check=_limit_range,
        why="A maximum of 8 for containers becomes their default: a pod that asked for nothing "
        "gets 8 GPUs. A minimum or maximum for pods refuses every pod without GPUs.",
        source="kubernetes v1.34.4 pkg/apis/core/v1/defaults.go SetDefaults_LimitRangeItem, "
        "plugin/pkg/admission/limitranger/admission.go; run on an API server 1.34.4",
        whole=True,
    ),
    Rule(
        id="GPU013",
        title="A GPU quota is on requests.",
        severity=Severity.MANDATORY,
        check=_quota,
        why="Quotas count extended resources under requests.<name> only. The API server accepts "
        "limits.nvidia.com/gpu and nvidia.com/gpu too, and then lets any number of GPUs through.",
        source="kubernetes v1.34.4 pkg/quota/v1/evaluator/core/pods.go "
        "isExtendedResourceNameForQuota; run on an API server 1.34.4",
    ),
)
