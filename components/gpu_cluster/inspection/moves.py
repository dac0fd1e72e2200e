"""Find pods that a change between a device plugin and DRA would disturb. Pure functions.

The kubelet allocates a device plugin's GPUs, the scheduler those of a DRA driver. Neither knows the
allocations of the other (kubernetes v1.37.2 pkg/kubelet/cm/devicemanager/manager.go,
pkg/scheduler/framework/plugins/dynamicresources): a GPU that a running pod holds would be allocated
a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu_cluster.findings import Finding, Kind, is_setting
from gpu_cluster.inspection.difference import Difference, PodLoss
from gpu_cluster.inspection.losses import DRA, PLATFORM, UnseenHolder
from gpu_cluster.platforms.findings import numbers
from gpu_cluster.settings.nodes.node_range import ranges
from gpu_cluster.validation.difference import ValidationDifference
from gpu_rules.faults import Fault, FaultSeverity
from gpu_rules.kube.gpu_resources import GPU
from gpu_rules.printable import counted, printable, shortened

BY_NAME = (1, 36)
"""First Kubernetes version with DRAExtendedResource on (kubernetes v1.36.3, kube_features.go)."""
NAMED = 5
"""Maximum number of pods that a message names."""


def moved(validation: ValidationDifference) -> tuple[Finding, ...]:
    """Return the findings about nodes that move from a device plugin to DRA, or back."""
    return tuple(
        finding
        for finding in validation.findings
        if finding.kind is Kind.CHANGE
        and is_setting(finding, PLATFORM)
        and finding.was
        and (finding.was == DRA) != (finding.now == DRA)
    )


def faults(difference: Difference) -> Iterator[Fault]:
    """Yield faults if running pods hold GPUs, or if nodes share GPUs, which DRA doesn't support."""
    moves = moved(difference.validation)
    if not moves:
        return
    was, now = moves[0].was, moves[0].now
    names = {finding.name for finding in moves}
    place = f"platform {printable(was, 63)} → {printable(now, 63)}"
    holders = [loss for loss in difference.losses if loss.node in names and loss.pod.gpus]
    if holders:
        yield _holders_fault(place, was, now, holders)
    if now == DRA:
        yield from _check_shared_gpus(difference, names, place)


def unseen(platform: str, holders: Sequence[UnseenHolder]) -> Iterator[Fault]:
    """Yield a fault if pods on joining nodes hold GPUs that the stack's platform does not see.

    A cluster may have a stack with a device plugin and one with DRA; a node moves between them.
    """
    if holders:
        other_software = "a device plugin" if platform == DRA else "a DRA driver"
        yield _holders_fault(f"platform {platform}", other_software, platform, holders)


def _holders_fault(
    place: str, was: str, now: str, holders: Sequence[PodLoss | UnseenHolder]
) -> Fault:
    pods = [
        printable(
            f"{holder.pod.namespace}/{holder.pod.name} ({holder.node}, {holder.pod.gpus})", 380
        )
        for holder in holders
    ]
    return Fault(
        place,
        f"{counted(len(pods), 'pod')} with GPUs of {was}, {shortened(pods, NAMED)}: {now} does not "
        "see that, and would allocate their GPUs a second time",
        "no pod with a GPU on these nodes while the platform changes",
        "scale these pods' owners to 0, or delete the pods, and run again",
    )


def _check_shared_gpus(difference: Difference, names: set[str], place: str) -> Iterator[Fault]:
    """Yield a fault if nodes advertise shares or parts of GPUs, which no DeviceClass serves."""
    ended: dict[str, list[str]] = {}
    for node in difference.scheduling.nodes:
        for resource, amount in node.advertised.items():
            whole = resource == GPU and amount <= node.before
            if node.node in names and resource.startswith("nvidia.com/") and amount and not whole:
                ended.setdefault(resource, []).append(node.node)
    for resource, nodes in sorted(ended.items()):
        node_ranges = shortened([*ranges(nodes)], NAMED)
        yield Fault(
            place,
            f"{printable(resource, 120)} on {node_ranges}, shared or partitioned GPUs",
            f"whole GPUs: the driver serves pods that request {GPU}, one GPU each, and no other "
            "resource",
            "take the sharing or partitions out of the old platform's settings and run "
            "`gpu-cluster up`; "
            "then change the platform",
        )


def warnings(validation: ValidationDifference, version: str) -> Iterator[Fault]:
    """Yield a warning if pods can't request GPUs by a resource's name after a move to DRA.

    The chart's DeviceClass has the extended resource `nvidia.com/gpu`, so that pods go on as they
    are; an API server with the feature gate off drops that field (dra-driver-nvidia-gpu v0.5.0,
    templates/deviceclass-gpu.yaml).

    Args:
        validation: Differences of the nodes' validation records.
        version: Version of the API server. Empty: unknown.
    """
    moves = moved(validation)
    if moves and moves[0].now == DRA and (0, 0) < numbers(version) < BY_NAME:
        yield Fault(
            f"platform {printable(moves[0].was, 63)} → {DRA}",
            f"Kubernetes {printable(version, 63)}, where the feature gate DRAExtendedResource is "
            "off by default",
            f"pods that go on with requests of {GPU}: without the gate they wait for ever",
            "turn it on in kube-apiserver, kube-scheduler, kube-controller-manager and kubelets, "
            "upgrade Kubernetes, or let pods request claims",
            FaultSeverity.WARNING,
        )
