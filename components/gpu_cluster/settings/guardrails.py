"""Section `guardrails` of the stack file: admission policies with the GPU rules, and GPU quotas."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, StrictInt, StrictStr

from gpu_cluster.base.model import Freeze, Model
from gpu_cluster.base.names import DnsLabel
from gpu_rules.facts.host_folders import DEFAULT, HOST_PATH
from gpu_rules.faults import Severity, refuse, show
from gpu_rules.kube.names import is_extended_resource


class GuardrailMode(StrEnum):
    """Response to an object that violates a mandatory rule.

    `ENFORCE`: the API server rejects the object; a violation of an advisory rule causes a warning.
    `WARN`: the API server accepts the object and sends a warning to the client. `AUDIT`: the API
    server accepts the object and records the violation only in its audit log.
    """

    ENFORCE = "enforce"
    WARN = "warn"
    AUDIT = "audit"


class FailurePolicy(StrEnum):
    """Response to an object that a policy fails to evaluate: reject or accept the object."""

    FAIL = "fail"
    IGNORE = "ignore"


def _validate_counted_resource(name: str) -> str:
    """Return the name of an extended resource if it has no quota prefix; reject it otherwise.

    Kubernetes counts extended resources in quotas only as `requests.<name>` (v1.34.4
    pkg/quota/v1/evaluator/core/pods.go), so this program adds the prefix.
    """
    bare = name.removeprefix("requests.").removeprefix("limits.")
    if bare != name:
        raise refuse(
            show(name),
            "the resource's name alone: this program adds the prefix requests.",
            f"write {show(bare)}",
        )
    if not is_extended_resource(name):
        raise refuse(
            show(name),
            "the name of a device, such as nvidia.com/gpu",
            "remove it, or set it by a manifest of your own",
        )
    return name


class Quota(Model):
    """Limit of the devices that all pods of a namespace may request; the namespace must exist."""

    namespace: DnsLabel = Field(description="a namespace", examples=["team-a"])
    resources: Annotated[
        dict[
            Annotated[StrictStr, AfterValidator(_validate_counted_resource)],
            Annotated[StrictInt, Field(ge=0)],
        ],
        Freeze,
    ] = Field(
        min_length=1,
        description="a mapping of devices to whole numbers, such as {nvidia.com/gpu: 16}; of a "
        "device class (DRA): <class>.deviceclass.resource.k8s.io/devices",
        examples=["{nvidia.com/gpu: 16}"],
    )


def _parse_day(value: object) -> date:
    """Return a day from a text or from a YAML date."""
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise refuse(
            show(value), "a day in the form YYYY-MM-DD", "write a day such as 2027-12-31"
        ) from None


Day = Annotated[date, BeforeValidator(_parse_day)]
RuleId = Annotated[StrictStr, Field(pattern="^GPU[0-9]{3}$")]


class SettledExemption(Model):
    """Exemption from rules until a day, for objects that match all declared fields.

    `*` in a pattern matches any text. `images` and `hostPaths` match an object if all of its
    images, or all of its host paths, match one of the patterns.
    """

    rules: tuple[RuleId, ...] = Field(
        min_length=1, description="a list of rules, such as [GPU036]", examples=["[GPU036]"]
    )
    until: Day = Field(description="a day, such as 2027-12-31", examples=["2027-12-31"])
    reason: Annotated[StrictStr, Field(min_length=1)] = Field(
        description="the reason for the exemption", examples=["its driver needs the device"]
    )
    namespaces: tuple[StrictStr, ...] = Field(
        default=(), description="a list of patterns of namespaces", examples=["[team-*]"]
    )
    labels: Annotated[dict[StrictStr, StrictStr], Freeze] = Field(
        default_factory=dict,
        description="labels of the object or of its pods",
        examples=["{app: dcgm}"],
    )
    images: tuple[StrictStr, ...] = Field(
        default=(),
        description="a list of patterns of images",
        examples=["[registry.example.com/monitoring/*]"],
    )
    host_paths: tuple[StrictStr, ...] = Field(
        default=(),
        description="a list of patterns of host paths",
        examples=["[/var/lib/kubelet/*]"],
    )


def _validate_distinct_namespaces(quotas: tuple[Quota, ...]) -> tuple[Quota, ...]:
    namespaces: set[str] = set()
    for quota in quotas:
        if quota.namespace in namespaces:
            raise refuse(
                f"{show(quota.namespace)} twice",
                "one quota for each namespace",
                "write all resources of a namespace into one quota",
            )
        namespaces.add(quota.namespace)
    return quotas


class GuardrailsSettings(Model):
    """Settings of the admission policies with the GPU rules, and of GPU quotas.

    The policies skip namespaces with the label `gpu-cluster/guardrails: exempt`, the namespaces in
    `excludedNamespaces`, `kube-system`, and the namespaces that the stack creates. Only users with
    the verb `grant` can set the label, or create a namespace with such a name.
    """

    mode: GuardrailMode = Field(description="enforce, warn or audit", examples=["warn"])
    failure_policy: FailurePolicy = Field(
        default=FailurePolicy.FAIL,
        description="fail or ignore: whether objects that a policy cannot evaluate are rejected",
        examples=["fail"],
    )
    excluded_namespaces: tuple[DnsLabel, ...] = Field(
        default=(),
        description="a list of namespaces that no rule applies to",
        examples=["[kube-system]"],
    )
    daemon_set_controllers: tuple[StrictStr, ...] = Field(
        default=(),
        description="a list of users that create the pods of DaemonSets, in addition to "
        "Kubernetes' own: "
        "the user of a controller manager without an account for each controller",
        examples=["[kubernetes-admin]"],
    )
    max_gpus_per_container: Annotated[StrictInt, Field(ge=0)] | None = Field(
        default=None,
        description="the most whole GPUs or MIG devices of one container",
        examples=["8"],
    )
    max_gpus_per_pod: Annotated[StrictInt, Field(ge=0)] | None = Field(
        default=None, description="the same of one pod", examples=["8"]
    )
    rules: Annotated[dict[RuleId, Severity], Freeze] = Field(
        default_factory=dict,
        description="a mapping of rules to mandatory, advisory or off, such as {GPU050: off}",
        examples=["{GPU050: off}"],
    )
    infrastructure_namespaces: tuple[DnsLabel, ...] = Field(
        default=(),
        description="a list of namespaces, beside the stack's own, where rules about workloads "
        "don't hold",
        examples=["[monitoring]"],
    )
    resource_names: tuple[StrictStr, ...] = Field(
        default=(),
        description="a list of GPU resources and DeviceClasses in addition to the well-known ones",
        examples=["[example.com/gpu]"],
    )
    runtime_classes: tuple[StrictStr, ...] = Field(
        default=(),
        description="a list of further RuntimeClasses that pods with GPUs may name",
        examples=["[kata-gpu]"],
    )
    allowed_host_paths: tuple[Annotated[StrictStr, Field(pattern=HOST_PATH)], ...] = Field(
        default=(DEFAULT,),
        description="a list of folders of nodes that pods with GPUs, or near GPUs, and "
        "PersistentVolumes may use; /* at the end stands for the folders directly below, default "
        "for the folders that docs/rules.md lists",
        examples=["[default, /scratch, /nvme/*]"],
    )
    other_claims: tuple[StrictStr, ...] = Field(
        default=(),
        description="a list of claims, claim templates and DeviceClasses (DRA) that have no GPUs",
        examples=["[network-claim]"],
    )
    exemptions: tuple[SettledExemption, ...] = Field(
        default=(),
        description="a list of exemptions, such as {rules: [GPU036], until: 2027-12-31, reason: …, "
        "namespaces: [monitoring]}",
    )
    quotas: Annotated[tuple[Quota, ...], AfterValidator(_validate_distinct_namespaces)] = Field(
        default=(), description="a list of quotas, such as {namespace: team-a, resources: …}"
    )
