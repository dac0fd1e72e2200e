"""Format a change document as text for a terminal: one screen for a typical change.

Pure functions. The first line counts the GPUs. Further lines are printed only for effects that the
run has: pods that lose their GPU, outages, and changes of versions, hosts and nodes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from gpu_cluster.change.document import (
    Cause,
    ClusterChange,
    Direction,
    Document,
    Gap,
    Loss,
    Move,
    NodeChange,
    Numbers,
    Outage,
    PodChange,
    PoolChange,
    QuotaUse,
    ResourceNumbers,
    SettingEdit,
    SharingKind,
    Statement,
    Upgrade,
    UpgradePath,
    VersionChange,
    stopping,
)
from gpu_cluster.change.names import and_more, listed
from gpu_cluster.desired.parts import Part
from gpu_cluster.findings import APPLIED, EMPTY, EXPECTED_GPUS, THERE, Aspect
from gpu_rules.kube.gpu_resources import GPU
from gpu_rules.printable import counted, printable, shortened

UNDECLARED = "not declared"
"""Words for an empty value in the stack file."""
ABSENT = "absent"
"""Word for a value that is not there any more, or was not there before."""
STOPPED = "a fault stops the run before it changes anything; the stack file asks for this:"
"""Line above the effects that a run would have if no fault stopped it."""
FULL_OUTAGE = "full outage"
NO_NEW_PODS = "no new GPU pods"
FULL: Mapping[str, str] = {
    FULL_OUTAGE: "all GPUs of the stack are gone at the same time, and running pods are evicted",
    NO_NEW_PODS: "every GPU of the stack is unavailable to new pods at the same time",
}
"""What it means that all GPUs are gone at the same time."""
UNKNOWN = "?"
"""Sign for a number that was not inspected."""
FILES = 3
"""Maximum number of files that one line names; the change document lists all."""
ALL_FILES = "GPU_CLUSTER_CHANGE=file lists them"
"""How a reader gets the files that a line only counts, also with plain `pulumi preview`."""
PODS = 3
"""Maximum number of pods that one line names; further pods are only counted."""
UNUSABLE = 8
"""Maximum number of nodes with unusable GPUs that one line names; others are only counted."""
EDITS = 12
"""Maximum number of edits of the stack file that are shown; others are only counted."""
CHANGED_PARTS = 8
"""Maximum number of definitions, values or parts of a chart that one line names."""
STATEMENTS = 12
"""Maximum number of lines of one kind of difference; further lines are only counted."""
DRIVER_VERSION = (Aspect.SETTING, "driver.version")
TOLD = frozenset(
    {
        (Aspect.POOL, ""),
        (Aspect.GPUS, ""),
        (Aspect.LAYOUT, ""),
        (Aspect.SETTING, EXPECTED_GPUS),
        (Aspect.SETTING, "release"),
        DRIVER_VERSION,
    }
)
"""Parts of nodes whose changes the lines about GPUs, outages and versions state already."""
HAPPENS: Mapping[Loss, tuple[str, str]] = {
    Loss.EVICTED: ("is evicted", "are evicted"),
    Loss.LOSES_GPU: (
        "keeps running on its GPUs until it ends; then no pod gets them any more",
        "keep running on their GPUs until they end; then no pod gets them any more",
    ),
    Loss.UNDECLARED_GPU: (
        "keeps running until it ends, on more GPUs than declared",
        "keep running until they end, on more GPUs than declared",
    ),
}
"""What happens to a pod, and to several pods."""
BECAUSE: Mapping[Cause, tuple[str, str]] = {
    Cause.DRAIN: ("because its node is drained", "because their nodes are drained"),
    Cause.TAINT: ("because of the new taint", "because of the new taint"),
    Cause.DRIVER: (
        "because its node's driver is replaced",
        "because their nodes' driver is replaced",
    ),
    Cause.LEAVES_POOL: (
        "because its node leaves the pool",
        "because their nodes leave the pool",
    ),
}
"""Why it happens to a pod, and to several pods; other causes need no words."""
AGAIN = (
    "a controller creates it again, and then it waits until a node has room",
    "controllers create them again, and then they wait until nodes have room",
)
"""What comes after the eviction of a pod, and of several pods."""
NOT_THERE = (
    "a controller creates it again, but not on a node with this taint, which it doesn't tolerate",
    "controllers create them again, but not on a node with this taint, which they don't tolerate",
)
"""What comes after the eviction of a pod, and of several pods, because of a taint."""
NEVER = ("nothing creates it again", "nothing creates them again")
"""What comes after the eviction of a pod, and of several pods, without a controller."""
SHARED: Mapping[SharingKind, str] = {
    SharingKind.TIME_SLICING: (
        "they take turns, each of them can use all of its memory, and a crash of one can end the "
        "others"
    ),
    SharingKind.MPS: "MPS gives each of them a fixed part of its memory and of its compute time",
}
"""What it means for pods that they share a GPU."""
_MARKS = frozenset({Aspect.LABEL, Aspect.TAINT})
"""What a node is marked with; a change that adds or removes a mark is said with its value."""
_DIGEST = re.compile(r"[0-9a-f]{8}|[0-9a-f]{12}")
KEEPING = (
    "keeps running, but nothing advertises its GPUs until the platform's new pods do",
    "keep running, but nothing advertises their GPUs until the platform's new pods do",
)
"""What happens to a pod, and to several pods, whose platform is removed and installed again."""


def lines(cluster: ClusterChange) -> list[str]:
    """Return the lines about one cluster of a change document; one line if nothing changes."""
    return [
        *filter(None, [printable(cluster.unknown)]),
        *filter(None, [health_text([cluster])]),
        *([STOPPED] if stopping([cluster]) else []),
        headline(cluster),
        *sharing_lines(cluster),
        *pod_lines(cluster),
        *outage_lines(cluster),
        *gap_lines(cluster),
        *cluster.notes,
        *(line for change in cluster.versions for line in version_lines(change)),
        *statement_lines("change", told_apart(cluster)),
        *file_lines(cluster),
        *statement_lines("drift", cluster.drift),
        *statement_lines("due", (item for item in cluster.due if not is_validation(item))),
        *(f"not inspected: {printable(reason)}" for reason in only_uninspected(cluster)),
        *maintenance_lines(cluster),
    ]


def maintenance_lines(cluster: ClusterChange) -> Iterator[str]:
    """Yield the line about hosts and nodes in maintenance."""
    if cluster.maintenance:
        yield f"in maintenance, so left alone: {listed(cluster.maintenance)}"


def health_text(clusters: Iterable[ClusterChange]) -> str:
    """Return the sentence about GPUs: how many of them are usable, and where the others are.

    Each command begins and ends with it. The text is empty if a cluster was not inspected, or has
    no GPUs.
    """
    all_clusters = list(clusters)
    usable = [cluster.usable for cluster in all_clusters if cluster.usable is not None]
    if not usable or len(usable) < len(all_clusters):
        return ""
    gone: dict[str, list[str]] = {}
    for lost_node in (node for cluster in all_clusters for node in cluster.unusable):
        gone.setdefault(lost_node.why, []).append(f"{lost_node.node}: {lost_node.gpus}")
    total = sum(usable) + sum(node.gpus for cluster in all_clusters for node in cluster.unusable)
    reasons = [f"{shortened(nodes, UNUSABLE)} {reason}" for reason, nodes in gone.items()]
    if resting := _gpus_in_maintenance(all_clusters):
        total += resting
        names = listed(name for cluster in all_clusters for name in cluster.maintenance)
        reasons.append(f"{names}: {resting} in maintenance")
    word = "simulated GPUs" if all(cluster.simulated for cluster in all_clusters) else "GPUs"
    return printable("; ".join([f"{sum(usable)} of {total} {word} usable", *reasons]))


def move_text(move: Move, name: Callable[[str], str] = printable) -> str:
    """Return what it means that the stack moves to another cluster.

    Args:
        name: Function that returns an identifier as text.
    """
    return (
        f"The cluster changes: {name(move.was)} → {name(move.now)}. All objects of the stack are "
        "deleted in the one and created in the other"
    )


def numbers(count: Numbers) -> str:
    """Return a number before and after the run, such as `32 → 16`, or one number if both agree."""
    if count.before == count.after:
        return str(count.after)
    before = UNKNOWN if count.before is None else str(count.before)
    return f"{before} → {count.after}"


def headline(cluster: ClusterChange) -> str:
    """Return the line that counts GPUs and names what is validated and drained.

    For example `GPUs 32 → 16 (pool a100: 8 → 4 on gpu-1..4); will be validated again; nobody
    drained`. Parts that another component declares are left out: what happens to them is unknown
    here.
    """
    words = (_gpus(cluster), validated(cluster), drained(cluster))
    return "; ".join(filter(None, words)) or "no node and no pod changes"


def _gpus(cluster: ClusterChange) -> str:
    if Part.PLATFORM not in cluster.parts:
        return ""
    details = list(pool_details(cluster))
    total = cluster.declared
    same = " as before" if total.before == total.after and not details else ""
    text = f"GPUs {numbers(total)}{same}{maintenance_text([cluster], listed)}"
    return f"{text} ({'; '.join(details)})" if details else text


def maintenance_text(
    clusters: Iterable[ClusterChange], names: Callable[[Iterable[str]], str]
) -> str:
    """Return how many GPUs are on nodes in maintenance after the run; empty if none are.

    Args:
        clusters: Changes of each `GpuCluster`.
        names: Function that returns names of nodes as text.
    """
    all_clusters = list(clusters)
    nodes = names(name for cluster in all_clusters for name in cluster.maintenance)
    number = _gpus_in_maintenance(all_clusters)
    return f", {number} of them on {nodes} in maintenance" if number else ""


def _gpus_in_maintenance(clusters: Iterable[ClusterChange]) -> int:
    return sum(cluster.resting.after for cluster in clusters if cluster.resting)


def sharing_lines(cluster: ClusterChange, name: Callable[[str], str] = printable) -> Iterator[str]:
    """Yield what sharing means for pods, for each pool whose amount of resources changes.

    Args:
        name: Function that returns a name as text.
    """
    for pool in cluster.pools:
        is_changed = any(resource.before != resource.after for resource in pool.resources)
        if pool.sharing and is_changed:
            sharing = pool.sharing
            yield (
                f"pool {name(pool.pool)}: up to {counted(sharing.pods, 'pod')} share a GPU: "
                f"{SHARED[sharing.kind]}"
            )


def pool_details(cluster: ClusterChange) -> Iterator[str]:
    """Yield the changes of each pool's GPUs, such as `pool a100: 8 → 4 on gpu-1`."""
    renamed = dict(_renamed_pools(cluster))
    names = set(renamed.values())
    nodes: dict[str, list[NodeChange]] = {}
    for node in cluster.nodes:
        for name in {node.was, node.pool}:
            nodes.setdefault(name, []).append(node)
    for pool in cluster.pools:
        if pool.pool in names:
            continue
        if pool.pool in renamed:
            yield (
                f"pool {printable(pool.pool)} is now {printable(renamed[pool.pool])}, "
                f"with the same nodes and {counted(pool.gpus.before or 0, 'GPU')}"
            )
            continue
        yield from _pool_lines(cluster, pool, nodes.get(pool.pool, []))


def _renamed_pools(cluster: ClusterChange) -> Iterator[tuple[str, str]]:
    """Yield the old and the new name of each renamed pool, whose nodes all move to a new pool."""
    before: dict[str, set[str]] = {}
    after: dict[str, set[str]] = {}
    moved: dict[str, set[str]] = {}
    for node in cluster.nodes:
        before.setdefault(node.was, set()).add(node.node)
        after.setdefault(node.pool, set()).add(node.node)
        if node.was != node.pool:
            moved.setdefault(node.was, set()).add(node.pool)
    gpus = {pool.pool: pool.gpus for pool in cluster.pools}
    for was, pools in moved.items():
        now = next(iter(pools))
        if not was or not now or len(pools) > 1 or before[was] != after[now]:
            continue
        old_gpus, two = gpus.get(was), gpus.get(now)
        if (
            old_gpus
            and two
            and not old_gpus.after
            and not two.before
            and old_gpus.before == two.after
        ):
            yield was, now


def _pool_lines(
    cluster: ClusterChange, pool: PoolChange, nodes: Sequence[NodeChange]
) -> Iterator[str]:
    name = printable(pool.pool)
    size_changes = [
        *_per_node(pool.pool, nodes),
        *_membership_words("without", [n for n in nodes if n.was == pool.pool != n.pool]),
        *_membership_words("with", [n for n in nodes if n.pool == pool.pool != n.was]),
    ]
    resources = [
        f"{resource.name} {numbers(resource)}"
        for resource in pool.resources
        if resource.before is not None and resource.before != resource.after
        if not (resource.name == GPU and _is_health(resource, pool))
    ]
    changed = pool.gpus.before is not None and pool.gpus.before != pool.gpus.after
    simple = len(size_changes) == 1 and size_changes[0].count("→")
    if changed and not simple:
        size_changes = [numbers(pool.gpus), *size_changes]
    if changed and pool.gpus.before and resources and not pool.gpus.after:
        resources = []
    if size_changes or (resources and cluster.changes):
        yield f"pool {name}: {', '.join([*size_changes, *resources])}"


def _is_health(resource: ResourceNumbers, pool: PoolChange) -> bool:
    """Return whether the amount of GPUs differs by more than what the stack declares changes.

    A pool's number of GPUs says so already, and the sentence about health says which whole GPUs
    are not advertised now.
    """
    if pool.gpus.before != pool.gpus.after:
        return True
    return resource.after == pool.gpus.after and (resource.before or 0) < resource.after


def _per_node(pool: str, nodes: Iterable[NodeChange]) -> Iterator[str]:
    """Yield the changes of the number of GPUs of nodes that stay in a pool."""
    nodes_by_change: dict[str, list[str]] = {}
    for node in nodes:
        if node.gpus and node.was == node.pool == pool and node.gpus.before != node.gpus.after:
            nodes_by_change.setdefault(numbers(node.gpus), []).append(node.node)
    for text, names in nodes_by_change.items():
        yield f"{text} on {listed(names)}"


def _membership_words(word: str, nodes: list[NodeChange]) -> Iterator[str]:
    """Yield which nodes leave or join a pool, grouped by their new or former pool."""
    nodes_by_pool: dict[str, list[str]] = {}
    for node in nodes:
        other_pool = node.pool if word == "without" else node.was
        nodes_by_pool.setdefault(other_pool, []).append(node.node)
    for other_pool, names in nodes_by_pool.items():
        pool_note = (
            ""
            if not other_pool
            else f" (now in {other_pool})"
            if word == "without"
            else f" (of {other_pool})"
        )
        yield f"{word} {listed(names)}{printable(pool_note)}"


def only_uninspected(cluster: ClusterChange) -> list[str]:
    """Return what could not be inspected, without what a fault says already."""
    faults = "\n".join(fault.text for fault in cluster.faults)
    return [
        reason
        for reason in cluster.uninspected
        if (reason.partition(": ")[2] or reason) not in faults
    ]


def validated(cluster: ClusterChange) -> str:
    """Return which nodes are validated, for the headline; empty without GPUs and validations."""
    chosen = [node for node in cluster.nodes if node.validated]
    if not chosen:
        has_gpus = bool(cluster.gpus.after) or Part.PLATFORM not in cluster.parts
        is_silent = Part.VALIDATION not in cluster.parts or not has_gpus or not cluster.is_changed
        return "" if is_silent else "nothing is validated"
    with_gpus = [node for node in chosen if node.was]
    if len(with_gpus) == len(chosen) and _all_gpus(cluster, chosen):
        return "will be validated again"
    verb = "will be validated again" if len(with_gpus) == len(chosen) else "will be validated"
    return f"{verb}: {listed(node.node for node in chosen)}"


def _all_gpus(cluster: ClusterChange, chosen: list[NodeChange]) -> bool:
    chosen_gpus = sum(node.gpus.after for node in chosen if node.gpus)
    return chosen_gpus == cluster.gpus.after


def drained(cluster: ClusterChange) -> str:
    """Return how many nodes are drained and rebooted, for the headline; empty without changes."""
    if not cluster.is_changed or not {Part.HOSTS, Part.PLATFORM} & {*cluster.parts}:
        return ""
    gone = [node for node in cluster.nodes if node.drained]
    booted = [node.node for node in cluster.nodes if node.rebooted]
    if not gone:
        return "drains unknown" if cluster.uninspected else "nobody drained"
    text = f"{counted(len(gone), 'node')} drained"
    if len(booted) == len(gone):
        return f"{text} and rebooted"
    return f"{text}, {len(booted)} of them rebooted" if booted else text


def pod_lines(cluster: ClusterChange) -> Iterator[str]:
    """Yield lines about pods that are evicted, and about pods that lose their GPUs."""
    for affected_pods in consequences(cluster):
        pod_names = ", ".join(map(pod_text, affected_pods[:PODS])) + and_more(
            len(affected_pods), PODS
        )
        yield f"{loss_text(affected_pods)}: {pod_names}"
        if after := afterwards(affected_pods):
            yield f"  {after}"
    if text := none_now(cluster, listed):
        yield text


def none_now(cluster: ClusterChange, names: Callable[[Iterable[str]], str]) -> str:
    """Return a note that the run would evict pods that start before it drains their nodes.

    The note is empty if the run evicts pods that run now, and if it evicts no pods at all.

    Args:
        cluster: What a run would change.
        names: Function that returns names of nodes as text.
    """
    if any(pod.loss is Loss.EVICTED for pod in cluster.pods):
        return ""
    if drained := [node.node for node in cluster.nodes if node.drained]:
        pod_text_later = f"a pod that runs on {names(drained)} when the node is drained"
    elif divided := [n.node for n in cluster.nodes if n.outage is Outage.MIG_LAYOUT]:
        pod_text_later = (
            f"a GPU pod that runs on {names(divided)} when the node's MIG layout is changed"
        )
    elif replaced := [name for gap in cluster.gaps if gap.evicts for name in gap.nodes]:
        pod_text_later = (
            f"a GPU pod that runs on {names(replaced)} when the node's driver is replaced"
        )
    else:
        return ""
    return f"no pod to evict runs now; {pod_text_later} is evicted"


def prospect(cluster: ClusterChange, names: Callable[[Iterable[str]], str] = listed) -> str:
    """Return whether the run will succeed, and what can still make it fail.

    The text is empty if a fault stops the run.

    Args:
        names: Function that returns names of nodes as text.
    """
    if stopping([cluster]):
        return ""
    if cluster.unknown or cluster.uninspected:
        return "unknown, because not everything was inspected"
    drained = [node.node for node in cluster.nodes if node.drained]
    booted = [node.node for node in cluster.nodes if node.rebooted]
    proven = [node.node for node in cluster.nodes if node.validated]
    steps = [name for item in cluster.changes if item.subject == "host" for name in item.names]
    restarted = [name for gap in cluster.gaps if not gap.evicts for name in gap.nodes]
    risks = [
        (drained, "a pod on {} can't be evicted"),
        (list(dict.fromkeys(steps)), "a step on {} fails"),
        (booted, "{} doesn't come back from its reboot"),
        (list(dict.fromkeys(restarted)), "the platform's pods don't start on {}"),
        (proven, "a kernel fails on a GPU of {}"),
    ]
    fails = " or if ".join(text.format(names(nodes)) for nodes, text in risks if nodes)
    expected = "yes, as far as a preview can tell: nothing was found that stops it"
    return f"{expected}. It fails if {fails}" if fails else expected


def consequences(cluster: ClusterChange) -> Iterator[list[PodChange]]:
    """Yield the affected pods in groups: pods to which the same happens for the same cause."""
    groups: dict[tuple[Loss, Cause | None, bool], list[PodChange]] = {}
    for pod in cluster.pods:
        is_lost = pod.loss is Loss.EVICTED and not pod.recreated
        groups.setdefault((pod.loss, pod.cause, is_lost), []).append(pod)
    yield from sorted(
        groups.values(), key=lambda affected_pods: list(Loss).index(affected_pods[0].loss)
    )


def loss_text(pods: Sequence[PodChange]) -> str:
    """Return what happens to pods, and why, such as `1 pod is evicted because …`."""
    return f"{counted(len(pods), 'pod')} {_loss_words(pods)}"


def _loss_words(pods: Sequence[PodChange]) -> str:
    several = len(pods) > 1
    cause = pods[0].cause
    words = (KEEPING if cause is Cause.PLATFORM else HAPPENS[pods[0].loss])[several]
    return f"{words} {BECAUSE[cause][several]}" if cause and cause in BECAUSE else words


def afterwards(pods: Sequence[PodChange]) -> str:
    """Return what happens to evicted pods of one group after the eviction; empty for others."""
    if pods[0].loss is not Loss.EVICTED:
        return ""
    words = NOT_THERE if pods[0].cause is Cause.TAINT else AGAIN
    return (words if pods[0].recreated else NEVER)[len(pods) > 1]


def fate_text(pod: PodChange) -> str:
    """Return what happens to a pod, why, and what comes after, such as `is evicted because …`."""
    return "; ".join(filter(None, [_loss_words([pod]), afterwards([pod])]))


def pod_text(pod: PodChange) -> str:
    """Return a pod with its node and its GPUs."""
    gpus = f", {counted(pod.gpus, 'GPU')}" if pod.gpus else ""
    return printable(f"{pod.namespace}/{pod.name} ({pod.node}{gpus})")


def outage_lines(cluster: ClusterChange) -> Iterator[str]:
    """Yield one line per kind of outage of nodes, such as a reboot, with the nodes of each wave."""
    words = {
        Outage.ROLLOUT: "changed in waves",
        Outage.REBOOT: "drained and rebooted",
        Outage.MIG_LAYOUT: "partitioned again",
    }
    for outage, word in words.items():
        affected = [node for node in cluster.nodes if node.outage is outage]
        if not affected:
            continue
        waves: dict[int | None, list[str]] = {}
        for node in affected:
            waves.setdefault(node.wave, []).append(node.node)
        widths = [len(names) for wave, names in waves.items() if wave is not None]
        most = min(cluster.at_once, max(widths, default=len(affected)))
        with_pods = " with pods" if outage is Outage.MIG_LAYOUT else ""
        number = counted(len(affected), "node")
        yield f"{number} {word}, at most {most}{with_pods} out of use at once"
        for wave, names in waves.items():
            if wave is not None:
                yield f"wave {wave}: {listed(names)}{at_a_time(len(names), cluster.at_once)}"
        if None in waves and outage is Outage.MIG_LAYOUT:
            order = "" if len(waves[None]) == 1 else ", one and then the others together"
            yield f"without pods, so changed first{order}: {listed(waves[None])}"


def at_a_time(number: int, at_once: int) -> str:
    """Return how many nodes of a wave are unavailable together; empty for a wave of one node."""
    if number < 2:
        return ""
    if at_once >= number:
        return ", all at the same time"
    return ", one at a time" if at_once == 1 else f", at most {at_once} at a time"


def gap_lines(cluster: ClusterChange) -> Iterator[str]:
    """Yield one line per cause of unavailable GPUs; if the run has several steps, with numbers."""
    steps = outage_steps(cluster)
    for number, gaps in enumerate(steps, 1):
        for gap in gaps:
            text = _gap_text(gap, kept_by(cluster))
            yield (f"{number}. " if len(steps) > 1 else "") + f"{gap.why}: {text}"
    if word := outage_word(cluster):
        yield f"{word} meanwhile: {FULL[word]}"


def kept_by(cluster: ClusterChange) -> str:
    """Return which running pods keep their GPUs during an outage that itself evicts no pod."""
    evicts = (
        any(limit.evicts for limit in cluster.limits)
        or any(pod.loss is Loss.EVICTED for pod in cluster.pods)
        or any(node.drained for node in cluster.nodes)
        or any(gap.evicts for gap in cluster.gaps)
    )
    return "pods that are not evicted" if evicts else "running pods"


def _gap_text(gap: Gap, keeping: str) -> str:
    gpus = f"{counted(gap.gpus, 'GPU')} of {listed(gap.nodes)}"
    if gap.evicts:
        return f"{gpus} gone meanwhile, {at_most(gap)}"
    return f"no new pod gets the {gpus} meanwhile, {at_most(gap)}; {keeping} keep theirs"


def outage_steps(cluster: ClusterChange) -> list[list[Gap]]:
    """Return the causes of unavailable GPUs, grouped by the consecutive steps of the run.

    The waves of a rollout are one step, whatever the reasons for which their nodes are drained.
    """
    rolled = {node.node for node in cluster.nodes if node.outage is Outage.ROLLOUT}
    in_waves: list[Gap] = []
    steps: list[list[Gap]] = []
    for gap in cluster.gaps:
        if gap.evicts and rolled.issuperset(gap.nodes):
            in_waves.append(gap)
        else:
            steps.append([gap])
    return [in_waves, *steps] if in_waves else steps


def outage_word(cluster: ClusterChange) -> str:
    """Return the words for an outage of all GPUs; empty if some GPUs stay available."""
    if not cluster.is_full_outage:
        return ""
    before = cluster.gpus.before
    whole = [gap for gap in cluster.gaps if gap.at_most == before]
    return FULL_OUTAGE if not whole or any(gap.evicts for gap in whole) else NO_NEW_PODS


def at_most(gap: Gap) -> str:
    """Return how many of an outage's GPUs are unavailable at the same time, as text."""
    return "all at the same time" if gap.at_most == gap.gpus else f"at most {gap.at_most} at a time"


def version_lines(change: VersionChange) -> Iterator[str]:
    """Yield the line about a changed version, and what its makers say about the change."""
    yield _version_line(change)
    if change.support is not None:
        yield from (f"  {printable(line)}" for line in support_lines(change.support))


def support_lines(support: UpgradePath, name: Callable[[str], str] = printable) -> Iterator[str]:
    """Yield what the makers of software say about a change of its version, and what it changes.

    Nothing is yielded for a change that is supported in one step and changes nothing else.

    Args:
        name: Function that returns a name or a version as text.
    """
    source = f"({support.source}, of {support.read})"
    path = " → ".join(map(name, support.path))
    if support.verdict == "by-way-of":
        yield f"supported only by way of {path} {source}"
    elif support.verdict == "not-back":
        yield f"a way back is not supported {source}"
    elif support.verdict == "unknown":
        yield (
            "unknown whether its makers support this change: what was read of them, of "
            f"{support.read}, doesn't name it"
        )
    for words, names in (
        ("changes the definitions", support.definitions),
        ("sets values that the new chart does not have:", support.dropped),
        ("restarts, with another version:", support.replaced),
    ):
        if names:
            yield f"{words} {shortened([*map(name, names)], CHANGED_PARTS)}"
    yield from support.notes


def _version_line(change: VersionChange) -> str:
    """Return the line about a changed version; it marks a downgrade."""
    words = {Direction.DOWNGRADE: ": a downgrade", Direction.UPGRADE: "", Direction.OTHER: ""}
    names = listed(change.where)
    return f"{change.part} {version_text(change)} on {names}{words[change.direction]}"


def version_text(change: VersionChange) -> str:
    """Return a version before and after the run."""
    return f"{change.was or 'not installed'} → {change.now or 'removed'}"


def object_lines(document: Document) -> Iterator[str]:
    """Yield lines that count the Kubernetes objects in the Pulumi engine's steps."""
    kinds_by_operation: dict[str, Counter[str]] = {}
    for resource in document.resources:
        if resource.type.startswith("kubernetes:"):
            kind = resource.type.rpartition(":")[2].removesuffix("Patch")
            kinds_by_operation.setdefault(resource.operation, Counter())[kind] += 1
    for operation, kinds in kinds_by_operation.items():
        kinds_text = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
        yield printable(f"objects: {operation} {kinds_text}")


def upgrade_lines(document: Document) -> Iterator[str]:
    """Yield what another version of this program than that of the last run changes."""
    if (upgrade := document.upgrade) is None:
        return
    for note in upgrade.notes:
        kind = "breaking" if note.breaking else "changed"
        here = f" ({', '.join(map(printable, note.here))})" if note.here else ""
        yield f"{kind} in gpu-cluster: {printable(note.text)}{here}"
    yield upgrade_text(upgrade, printable)


def upgrade_text(upgrade: Upgrade, name: Callable[[str], str]) -> str:
    """Return the sentence about another version of this program than that of the last run.

    Args:
        name: Function that returns a version as text.
    """
    versions = f"gpu-cluster {name(upgrade.was)} → {name(upgrade.now)}"
    if upgrade.back:
        return f"{versions}: an older version, whose change log does not list the difference"
    touched = counted(sum(bool(note.here) for note in upgrade.notes), "change")
    breaking = sum(note.breaking for note in upgrade.notes)
    return (
        f"{versions}: {touched} in settings of this stack, {breaking} breaking, "
        f"{upgrade.others} more in CHANGELOG.md"
    )


def edit_lines(document: Document) -> Iterator[str]:
    """Yield the edits of the stack file since the last run that succeeded, one line each."""
    every = document.edits or ()
    for edit in every[:EDITS]:
        yield f"edited: {edit.path}: {edit_text(edit, printable)}"
    if (more := len(every) - EDITS) > 0:
        yield f"edited: and {counted(more, 'setting')} more"


def edit_text(edit: SettingEdit, value: Callable[[str], str]) -> str:
    """Return a setting's value before and after the edit.

    Args:
        edit: The edit.
        value: Function that returns a value as text.
    """
    if not edit.was:
        replaced = f", in place of the default {value(edit.default)}" if edit.default else ""
        return f"added, {value(edit.now)}{replaced}"
    if not edit.now:
        held = f"; the default {value(edit.default)} holds again" if edit.default else ""
        return f"taken out, was {value(edit.was)}{held}"
    return f"{value(edit.was)} → {value(edit.now)}"


def refusal_lines(document: Document) -> Iterator[str]:
    """Yield the running workloads that admission refuses from this run on, one line each."""
    for refusal in document.refused[:PODS]:
        yield (
            f"new pods refused by the guardrails: {refusal.kind} "
            f"{refusal.namespace}/{refusal.name}, whose {counted(refusal.pods, 'pod')} "
            f"{'goes' if refusal.pods == 1 else 'go'} on: {refusal.why}"
        )
    if (more := len(document.refused) - PODS) > 0:
        yield f"new pods refused by the guardrails: and {counted(more, 'workload')} more"
    for use in document.quotas[:STATEMENTS]:
        yield printable(f"quota of namespace {use.namespace}: {quota_text(use, printable)}")
    if (more := len(document.quotas) - STATEMENTS) > 0:
        yield f"quotas: and {more} more"
    if document.unjudged:
        yield (
            "unknown which running workloads the guardrails refuse, and how much of each quota is "
            f"in use: {printable(document.unjudged)}"
        )


def quota_text(use: QuotaUse, name: Callable[[str], str]) -> str:
    """Return what a quota allows, and what the pods of its namespace request now.

    Args:
        name: Function that returns the name of a resource as text.
    """
    limit = f"at most {use.limit} {name(use.resource)} for all pods together"
    if use.used is None:
        return f"{limit}; how many they request now is unknown"
    if use.used <= use.limit:
        return f"{limit}; they request {use.used} now"
    return (
        f"{limit}; they request {use.used} now, which is more: these pods go on, but no new pod "
        "with this resource starts until they request less"
    )


def file_lines(cluster: ClusterChange) -> Iterator[str]:
    """Yield the files that the run may write on hosts, one line per group of hosts."""
    paths_by_names: dict[tuple[str, ...], list[str]] = {}
    for statement in cluster.files:
        paths_by_names.setdefault(statement.names, []).append(printable(statement.what))
    for names, paths in paths_by_names.items():
        more = f" ({ALL_FILES})" if len(paths) > FILES else ""
        yield f"files on {listed(names)}: {shortened(paths, FILES)}{more}"


def is_validation(statement: Statement) -> bool:
    """Return whether a difference is a reason for a validation, which the headline shows."""
    return statement.aspect is Aspect.VALIDATION


def told_apart(cluster: ClusterChange, edited: frozenset[str] = frozenset()) -> list[Statement]:
    """Return the changes that no other line shows, in as few `Statement`s as possible.

    Args:
        edited: Words of the paths of edits that another line shows. Changes of nodes without values
            that belong to these sections of the stack file are left out.
    """
    other_changes = [
        change
        for change in own_changes(cluster)
        if change.subject != "node"
        or change.was
        or change.now
        or edited.isdisjoint(path_words(change.key)[:1])
        if not (change.subject == "node" and (change.aspect, change.key) in TOLD)
        and not (change.aspect is Aspect.CHART and cluster.versions)
        and not ((change.aspect, change.key) == DRIVER_VERSION and change.was and cluster.versions)
    ]
    return _join_differences(_with_steps(other_changes))


def path_words(path: str) -> list[str]:
    """Return the words of a setting's path: `pools[a100].mig` has the words pools, a100 and mig."""
    return [word for word in re.split(r"[].[]", path) if word]


def own_changes(cluster: ClusterChange) -> list[Statement]:
    """Return the changes without those of nodes that only follow from a setting of their hosts.

    A node records the settings with which it was validated, in which a default is a value; a host
    records no value for a setting that was not declared.
    """
    of_hosts = {
        (change.aspect, change.key) for change in cluster.changes if change.subject == "host"
    }
    return [
        change
        for change in cluster.changes
        if change.subject != "node"
        or change.aspect is not Aspect.SETTING
        or (change.aspect, change.key) not in of_hosts
    ]


def _join_differences(statements: Iterable[Statement]) -> list[Statement]:
    """Join the differences of the same hosts or nodes that have no values to show."""
    joined: dict[Statement, list[Statement]] = {}
    for statement in statements:
        if statement.was or statement.now:
            joined[statement] = [statement]
        else:
            shared = statement.model_copy(update={"aspect": Aspect.REASON, "key": ""})
            joined.setdefault(shared, []).append(statement)
    return [
        same_subject[0] if len(same_subject) == 1 else _unite_differences(same_subject)
        for same_subject in joined.values()
    ]


def _unite_differences(statements: Sequence[Statement]) -> Statement:
    """Return one difference for several of the same hosts or nodes, which have no values."""
    is_setting = statements[-1].aspect is Aspect.SETTING
    key = ", ".join(statement.what for statement in statements)
    aspect = Aspect.SETTING if is_setting else Aspect.REASON
    return statements[0].model_copy(update={"aspect": aspect, "key": key})


def _with_steps(statements: list[Statement]) -> list[Statement]:
    """Return differences; for hosts with new preparation steps, only count the steps' settings."""
    hosts = [
        statement for statement in statements if statement.subject == "host" and not statement.was
    ]
    counts = Counter(host.names for host in hosts)
    new: dict[tuple[str, ...], list[str]] = {}
    for host in hosts:
        if host.aspect is Aspect.STEP:
            new.setdefault(host.names, []).append(host.key)
    kept = [
        statement
        for statement in statements
        if statement.subject != "host" or statement.names not in new or statement.was
    ]
    summaries = []
    for names, steps in new.items():
        settings = counts[names] - len(steps)
        more = f" with {counted(settings, 'setting')}" if settings else ""
        key = f"new: step{'s' if steps[1:] else ''} {', '.join(steps)}{more}"
        summaries.append(Statement(subject="host", names=names, aspect=Aspect.REASON, key=key))
    return [*kept, *summaries]


def statement_lines(kind: str, statements: Iterable[Statement]) -> Iterator[str]:
    """Yield one line per difference, up to `STATEMENTS`; the rest is counted.

    Args:
        kind: `change`, `drift` or `due`. For drift, an empty value is shown as absent, otherwise as
            not declared.
        statements: The differences.
    """
    all_statements = list(statements)
    empty = ABSENT if kind == "drift" else UNDECLARED
    for item in all_statements[:STATEMENTS]:
        yield f"{kind}: {item.subject} {listed(item.names)}: {statement_text(item, empty)}"
    if (more := len(all_statements) - STATEMENTS) > 0:
        yield f"{kind}: and {more} more"


def is_digest(value: str) -> bool:
    """Return whether a recorded value is a digest, which says nothing to a reader."""
    return bool(_DIGEST.fullmatch(value))


def _mark_text(statement: Statement) -> str:
    """Return a label or a taint with its value, as `kubectl` writes it: `taint a=b:NoSchedule`."""
    value = statement.was or statement.now
    key, _, effect = statement.key.partition(":")
    text = f"{statement.aspect} {key}" if value == EMPTY else f"{statement.aspect} {key}={value}"
    return f"{text}:{effect}" if effect else text


def statement_text(statement: Statement, empty: str = UNDECLARED) -> str:
    """Return a difference without its subject, such as `label team not declared → ml`.

    Args:
        statement: The difference.
        empty: Words for a value that is empty.
    """
    was, now = statement.was, statement.now
    if not was and not now:
        changed = " changed" if statement.aspect is Aspect.SETTING else ""
        return printable(f"{statement.what}{changed}")
    if statement.aspect is Aspect.FACT and is_digest(was) and is_digest(now):
        return printable(f"{statement.what} its pod template changed, digest {was} → {now}")
    if statement.aspect is Aspect.OBJECT:
        return f"{statement.what} is created" if now == THERE else f"{statement.what} was deleted"
    if statement.aspect is Aspect.POOL:
        moves = f"moves from {was} to {now}" if was and now else ""
        return printable(moves or (f"joins pool {now}" if now else f"leaves pool {was}"))
    if empty == UNDECLARED and statement.aspect in _MARKS and not (was and now):
        return printable(f"{_mark_text(statement)} is {'added' if now else 'removed'}")
    if now.startswith(APPLIED):
        empty = "not applied"
    return printable(f"{statement.what} {was or empty} → {now or empty}")
