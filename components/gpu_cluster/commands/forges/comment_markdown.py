"""The comment of a pull request about a change document, as Markdown for GitHub and GitLab.

Pure functions. Names and texts of the document are untrusted, so the comment shows them in code
spans and code blocks, where neither Markdown, HTML, mentions, nor GitLab's quick actions work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gpu_cluster.change.document import (
    ClusterChange,
    Direction,
    Document,
    Gap,
    Limit,
    Loss,
    NodeChange,
    Numbers,
    Outage,
    Outcome,
    PodChange,
    Problem,
    Resource,
    Restriction,
    SettingEdit,
    Statement,
    stopping,
)
from gpu_cluster.change.names import and_more, ranges
from gpu_cluster.change.text import (
    ABSENT,
    EDITS,
    afterwards,
    at_a_time,
    consequences,
    edit_text,
    fate_text,
    health_text,
    is_validation,
    kept_by,
    loss_text,
    maintenance_text,
    move_text,
    none_now,
    numbers,
    object_lines,
    only_uninspected,
    outage_steps,
    outage_word,
    own_changes,
    path_words,
    pool_details,
    prospect,
    quota_text,
    sharing_lines,
    statement_text,
    support_lines,
    told_apart,
    upgrade_text,
)
from gpu_cluster.findings import Aspect
from gpu_rules.printable import counted, printable, printable_lines

T = TypeVar("T")

LIMIT = 60_000
"""Largest comment in bytes. GitHub takes 65,536 characters (its answer 422, "Body is too long"),
GitLab 1,000,000 (GitLab documentation, "Application limits", comments).
"""
ROWS = (300, 100, 30, 10, 3, 0)
"""Numbers of rows per list that are tried until the comment fits `LIMIT`."""
PODS = 10
"""Maximum number of pods that are named above the folded details."""
STATEMENTS = 5
"""Maximum number of differences that are listed above the folded details."""
WAVES = 5
"""Maximum number of waves that are listed above the folded details."""
GAPS = 5
"""Maximum number of causes of an outage that are listed above the folded details."""
LONGEST = 330
"""Maximum number of characters of one name or value: a pod's name with its namespace has 317."""
NAMES = 6
"""Maximum number of names or ranges of a list above the folded details."""
DUE = "still to do; `gpu-cluster up` does this"
"""What is due, for a reader who does not know the word."""
DETAIL = 1000
"""Maximum number of characters of a text with several names or values."""
ALLOWED = "What a run would do"
"""Title of the effects of a run."""
REFUSED = "What the stack file asks for; a run refuses it and changes nothing"
"""Title of the effects that a run would have if no fault stopped it."""
EVICTED = "running pods are evicted, and new pods get none of these GPUs meanwhile"
"""What an outage means for which nodes are drained, or their drivers replaced."""
KEPT = "new pods get none of these GPUs meanwhile; {} keep theirs"
"""What an outage means that itself evicts no pod, for the pods that keep their GPUs."""
CHANGES = "Changes, also of defaults that follow from the edits"
"""Title of all differences between the desired and the last applied state."""
KERNEL = "a short CUDA program runs on each GPU; pods that use GPUs are not disturbed"
"""What a validation is, for a reader who does not know the word."""
REPORTED = (
    "The pull request's own code reported this, also if it comes from a fork: if it changes the "
    "program, read the code, too."
)
"""Who speaks in a comment about a simulated preview: nobody checked what the code wrote."""
JUDGED = (
    "The program of the base branch made this preview: the pull request changes settings only, and "
    "none of its code ran."
)
"""Who speaks in a comment about a preview that the base's program made."""
SIMULATED = (
    "pods of the simulated cluster; `gpu-cluster preview` shows the pods of the real cluster"
)
"""What a reader must know of pods after a preview on an embedded cluster."""
MARK = re.compile(
    r"^<!-- gpu-cluster change: stack=(?P<stack>\S{1,100}) labels=(?P<labels>\S*) -->"
)
LABELS: Mapping[str, str] = {
    "gpus": "another number of GPUs",
    "disruptive": "pods, nodes or GPUs disturbed",
    "drift": "changes by somebody else",
}
"""Labels of a pull request, and what they mean."""
FOLLOWS = "which follows from the edits"
"""Why a setting changes that is not edited itself."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Preview from which a change document comes.

    Attributes:
        commit: Commit that was previewed. Empty: unknown.
        base: Commit or branch that was deployed on a simulated cluster before the preview. Empty:
            the preview is of the real stack.
        run: URL of the web page of the CI run. Empty: none.
        is_by_base: Whether the program of `base` made the document, and no code of the commit ran.
    """

    commit: str = ""
    base: str = ""
    run: str = ""
    is_by_base: bool = False


def code(text: str, limit: int = LONGEST) -> str:
    """Return a text as a code span, also inside a table."""
    plain = printable(text, limit).replace("|", "\\|") or " "
    fence = "`" * (max(map(len, re.findall(r"`+", plain)), default=0) + 1)
    space = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{space}{plain}{space}{fence}"


def block(text: str) -> str:
    """Return a text as a code block; indented lines can't be quick actions of GitLab."""
    plain = printable_lines(text, 4000)
    fence = "`" * max(3, max(map(len, re.findall(r"`+", plain)), default=0) + 1)
    body = "\n".join(f"  {line}" for line in plain.splitlines())
    return f"{fence}text\n{body}\n{fence}"


def mark(stack: str, labels: Iterable[str]) -> str:
    """Return the hidden first line of a stack's comment; later runs find the comment by it."""
    return f"<!-- gpu-cluster change: stack={_plain(stack)} labels={','.join(labels)} -->"


def _plain(stack: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", stack)[:100] or "_"


def labels(document: Document) -> tuple[str, ...]:
    """Return which labels the pull request gets: `gpus`, `disruptive`, `drift`."""
    clusters = document.clusters
    counts = [cluster.gpus for cluster in clusters]
    holds = {
        "gpus": any(
            numbers.before is not None and numbers.before != numbers.after for numbers in counts
        ),
        "disruptive": any(
            cluster.pods or cluster.gaps or any(node.drained for node in cluster.nodes)
            for cluster in clusters
        ),
        "drift": any(cluster.drift for cluster in clusters),
    }
    return tuple(name for name in LABELS if holds[name])


def is_silent(document: Document) -> bool:
    """Return whether a document needs no comment: no change, failure, violated rule or upgrade."""
    is_unchanged = document.outcome is Outcome.UNCHANGED and document.upgrade is None
    return is_unchanged and not document.rules


def rendered(document: Document, origin: Origin = Origin()) -> str:
    """Return the Markdown comment about a change document, at most `LIMIT` bytes long."""
    head = f"{mark(document.stack, labels(document))}\n"
    for rows in ROWS:
        text = head + "\n\n".join(_parts(document, origin, rows)) + "\n"
        if len(text.encode()) <= LIMIT:
            return text
    return head + "\n\n".join([_title(document), *_cause(document)])[: LIMIT - len(head)]


def outdated(body: str, origin: Origin = Origin(), gpus: int | None = None) -> str:
    """Return an earlier comment, marked as outdated because the pull request changes nothing now.

    Args:
        body: The earlier comment.
        origin: The newer preview.
        gpus: Number of GPUs of the stack. None: unknown.
    """
    match = MARK.match(body)
    stack = match["stack"] if match else "_"
    old_text = re.sub(r"\n<sub>This comment is .*</sub>\n*\Z", "\n", body.partition("\n")[2])
    if "<summary>Outdated" in old_text[:400]:
        return body
    commit = f" of commit {code(origin.commit[:12])}" if origin.commit else ""
    count = "" if gpus is None else f": {counted(gpus, 'GPU')}, as before"
    head = (
        f"{mark(stack, ())}\n### Stack {code(stack)}: no changes any more\n\n"
        f"The preview{commit} changes nothing{count}.\n\n"
        "<details><summary>Outdated: what an earlier preview said</summary>\n\n"
    )
    old_start = old_text.encode()[: LIMIT - len(head.encode()) - 100].decode(errors="ignore")
    if len(old_start) < len(old_text):
        # A shortened comment may end inside a code block or inside `<details>`.
        old_start = block(old_start)
    return f"{head}{old_start}\n</details>\n"


def _parts(document: Document, origin: Origin, rows: int) -> Iterator[str]:
    yield _title(document)
    if document.move:
        yield f"**{move_text(document.move, code)}.**"
    yield from _health(document)
    yield from _cause(document)
    yield from _upgrade(document)
    yield from _edits(document)
    yield from _refused(document)
    for cluster in document.clusters:
        if len(document.clusters) > 1:
            yield f"**Cluster {code(cluster.name)}**"
        if cluster.unknown:
            yield f"Not known yet: {code(cluster.unknown, 1000)}"
        # Markdown would join the list with one above it, if no text stood between them.
        is_failed = document.outcome is Outcome.FAILED
        answers = "\n".join(
            _answers(
                cluster,
                simulated=bool(origin.base),
                edits=document.edits or (),
                is_failed=is_failed,
            )
        )
        yield f"**{REFUSED if is_failed else ALLOWED}**\n\n{answers}"
    yield from _rules(document, rows)
    yield from _warnings(document)
    for cluster in document.clusters:
        yield from _details(cluster, rows)
    yield from _engine(document, rows)
    yield from _health(document)
    yield _footer(document, origin)


def _health(document: Document) -> Iterator[str]:
    """Yield the sentence about GPUs if pods can't use all of those that are not in maintenance."""
    if any(cluster.unusable for cluster in document.clusters):
        yield f"Now: {code(health_text(document.clusters), DETAIL)}"


def _title(document: Document) -> str:
    stack = code(document.stack)
    if document.outcome is Outcome.FAILED:
        return f"### Stack {stack}: the preview failed"
    if document.outcome is Outcome.UNCHANGED:
        return f"### Stack {stack}: no change"
    words = list(dict.fromkeys(filter(None, map(outage_word, document.clusters))))
    outage = "".join(f", **{word} meanwhile**" for word in words)
    evicted = sum(p.loss is Loss.EVICTED for cluster in document.clusters for p in cluster.pods)
    if evicted:
        outage = f", **{counted(evicted, 'pod')} evicted**{outage}"
    total, resting = document.gpus, maintenance_text(document.clusters, _names)
    if total.before != total.after:
        return f"### Stack {stack}: {numbers(total)} GPUs{resting}{outage}"
    requested = "".join(f"; {text}" for text in _requested(document))
    return (
        f"### Stack {stack}: {counted(total.after, 'GPU')}, as before{resting}{requested}{outage}"
    )


def _requested(document: Document) -> Iterator[str]:
    """Yield the amounts of each extended resource whose total changes, before and after."""
    resources: dict[str, list[Numbers]] = {}
    for cluster in document.clusters:
        for pool in cluster.pools:
            for resource in pool.resources:
                resources.setdefault(resource.name, []).append(resource)
    for name, all_numbers in list(resources.items())[:GAPS]:
        before = [resource.before for resource in all_numbers]
        numbers_before = [number for number in before if number is not None]
        total = Numbers(
            before=sum(numbers_before), after=sum(resource.after for resource in all_numbers)
        )
        if len(numbers_before) == len(before) and total.before != total.after:
            yield f"{code(name)} {numbers(total)}"


def _cause(document: Document) -> Iterator[str]:
    """Yield why a preview failed, with its first 20 faults; nothing if it did not fail."""
    if document.outcome is not Outcome.FAILED:
        return
    texts = dict.fromkeys(map(_placed, stopping(document.clusters, document.faults)))
    cause_lines = list(texts)[:20] or [document.cause]
    more = [f"and {len(texts) - 20} more"] if len(texts) > 20 else []
    text = "`gpu-cluster up` would fail in the same way, before it changes anything:\n\n"
    yield text + block("\n".join([*cause_lines, *more]))
    if not document.clusters:
        yield (
            "**GPUs and pods**: unknown. The preview failed before it counted GPUs and inspected "
            "pods."
        )


def _upgrade(document: Document) -> Iterator[str]:
    """Yield what another version of this program than that of the last run changes."""
    if (upgrade := document.upgrade) is None:
        return
    lines = [
        f"- {'**breaking**: ' if note.breaking else ''}{code(note.text, DETAIL)}"
        + (f": {', '.join(map(code, note.here))}" if note.here else "")
        for note in upgrade.notes[:EDITS]
    ]
    more = len(upgrade.notes) - EDITS
    more_lines = [f"- and {counted(more, 'change')} more"] if more > 0 else []
    yield "\n".join([f"**{upgrade_text(upgrade, code)}**", "", *lines, *more_lines])


def _edits(document: Document) -> Iterator[str]:
    """Yield the edits of the stack file since the last successful run."""
    edits = document.edits or ()
    if document.edits is None and not document.clusters:
        yield "**Edited in the stack file**: unknown, because no state of the stack was read"
    if edits:
        lines = [f"- {code(edit.path)}: {edit_text(edit, code)}" for edit in edits[:EDITS]]
        more = [f"- and {counted(len(edits) - EDITS, 'setting')} more"] if edits[EDITS:] else []
        yield "\n".join(["**Edited in the stack file**", "", *lines, *more])


def _refused(document: Document) -> Iterator[str]:
    """Yield the running workloads that get no new pods after the run, and the usage of quotas."""
    if document.unjudged:
        yield (
            "**New pods that the guardrails refuse**: unknown, because the running pods were not "
            f"read: {code(document.unjudged, DETAIL)}"
        )
    workloads = document.refused
    if workloads:
        head = (
            f"**The guardrails refuse new pods of {counted(len(workloads), 'running workload')}.** "
            "Pods that run now go on until they end. After this run, Kubernetes refuses each pod "
            "that replaces one of them, for example after an eviction or a restart of the node"
        )
        lines = [
            f"- {code(f'{workload.kind} {workload.namespace}/{workload.name}')} "
            f"({counted(workload.pods, 'pod')}): {code(workload.why, DETAIL)}"
            for workload in workloads[:PODS]
        ]
        more = [f"- and {len(workloads) - PODS} more"] if workloads[PODS:] else []
        yield "\n".join([head, "", *lines, *more])
    if quotas := document.quotas:
        lines = [
            f"- namespace {code(use.namespace)}: {quota_text(use, code)}" for use in quotas[:PODS]
        ]
        more = [f"- and {len(quotas) - PODS} more"] if quotas[PODS:] else []
        yield "\n".join(["**Quotas after this run**", "", *lines, *more])


def _placed(problem: Problem) -> str:
    place = f"{problem.file}:{problem.line}: " if problem.line else ""
    return f"{place}{problem.text}"


def _answers(
    cluster: ClusterChange, *, simulated: bool, edits: Sequence[SettingEdit], is_failed: bool
) -> Iterator[str]:
    """Yield the most important lines about a cluster: GPUs, pods, outages, versions.

    Args:
        cluster: What a run would change.
        simulated: Whether the cluster is an embedded one.
        edits: The edited settings, which the comment names. Only their effects on hosts and nodes
            are left to say. Empty: unknown, or none.
        is_failed: Whether the run would fail. Then no line says that nothing happens: what the
            errors name is in no count.
    """
    total, resting = cluster.declared, maintenance_text([cluster], _names)
    before = "unknown" if total.before is None else str(total.before)
    details = _list(code(detail, DETAIL) for detail in pool_details(cluster))
    if not is_failed:
        yield f"- **Will the run succeed**: {prospect(cluster, _names)}"
        yield f"- **GPUs**: {before} before, {total.after} after{resting}{details}"
    else:
        yield f"- **GPUs**: {before} now; the stack file declares {total.after}{resting}{details}"
    for text in sharing_lines(cluster, code):
        yield f"- **Shared GPUs**: {text}"
    if not is_failed or cluster.pods or cluster.uninspected:
        yield f"- **Pods**: {_pods(cluster)}{f' ({SIMULATED})' if simulated else ''}"
    if not is_failed or cluster.gaps or cluster.uninspected:
        yield f"- **Down meanwhile**: {_down(cluster)}"
    # A run that fails takes no GPU away: how it would, depends on how its errors are mended.
    unsaid = {Restriction.NOT_INSPECTED, *([Restriction.UNDECLARED] if is_failed else ())}
    if lasting := [limit for limit in cluster.limits if limit.what not in unsaid]:
        more = [f"{len(lasting) - PODS} more"] if len(lasting) > PODS else []
        texts = [_limit(limit, cluster) for limit in lasting[:PODS]]
        yield f"- **After the run**: {'; '.join([*texts, *more])}"
    drained = [node for node in cluster.nodes if node.drained]
    if drained or not is_failed:
        yield f"- **Drained and rebooted nodes**: {_drained(drained, cluster)}"
    again = [node for node in cluster.nodes if node.validated]
    if again:
        names = _names(node.node for node in again)
        yield f"- **{'Would' if is_failed else 'Will'} be validated** ({KERNEL}): {names}"
    for version in cluster.versions[:PODS]:
        down = ", **a downgrade**" if version.direction is Direction.DOWNGRADE else ""
        values = f"{code(version.was or 'not installed')} → {code(version.now or 'removed')}"
        yield f"- **{_word(version.part)}**: {values} on {_names(version.where)}{down}"
        if version.support is not None:
            yield from (f"  - {line}" for line in support_lines(version.support, code))
    # The list of edits already has the changes of the sections that it names, with their values.
    words = frozenset(word for edit in edits for word in path_words(edit.path))
    changes = told_apart(cluster, words)
    if other_texts := _difference_words(changes, _followed_text if edits else statement_text):
        first = "Also changed" if cluster.gaps or cluster.limits or cluster.versions else "Changed"
        place = "on hosts and nodes" if edits else "in the stack file"
        yield f"- **{first} {place}**: {other_texts}"
    if cluster.drift:
        yield (
            "- **Drift** (changed outside of this program since the last run; `gpu-cluster "
            "up` reverts "
            "it): "
            f"{_difference_words(cluster.drift, _drift_text)}"
        )
    due = _difference_words([limit for limit in cluster.due if not is_validation(limit)])
    if due:
        yield f"- **Due** ({DUE}): {due}"
    elif cluster.due:
        yield f"- **Due** ({DUE}): the validations above"
    for note in cluster.notes[:PODS]:
        yield f"- {code(note)}"
    if missing := only_uninspected(cluster):
        yield "- **Not inspected**: " + "; ".join(code(limit) for limit in missing[:5])
    if cluster.maintenance:
        names = _names(cluster.maintenance)
        yield (
            f"- **In maintenance**: {names}. Runs change nothing there, validate nothing, and wait "
            "for nothing. Pods go on there, and new ones can start there, unless somebody cordons "
            "the node"
        )


def _followed_text(statement: Statement) -> str:
    """Return a difference, and that it follows from edits if it is no edit of its own."""
    text = statement_text(statement)
    is_silent = not (statement.was or statement.now)
    is_setting = statement.subject == "node" and statement.aspect is Aspect.SETTING
    return f"{text}, {FOLLOWS}" if is_silent and is_setting else text


def _word(version_part: str) -> str:
    """Return a software's name as Markdown; an untrusted chart name becomes a code span."""
    head, _, name = version_part.partition(" ")
    word = head if head.isalpha() and len(head) < 30 else "version"
    word = word[:1].upper() + word[1:]
    return f"{word} {code(name)}" if name else word


def _list(items: Iterable[str]) -> str:
    texts = list(items)
    return f" ({'; '.join(texts)})" if texts else ""


def _pods(cluster: ClusterChange) -> str:
    texts = []
    for pods in consequences(cluster):
        pod_names = ", ".join(map(_pod, pods[:PODS])) + and_more(len(pods), PODS)
        after = f"; {text}" if (text := afterwards(pods)) else ""
        texts.append(f"**{loss_text(pods)}**{after}: {pod_names}")
    if not texts and cluster.unknown:
        return "unknown, because the cluster was not inspected"
    if text := none_now(cluster, _names):
        texts.append(text)
    if not texts:
        none_text = "none that was found" if cluster.uninspected else "none"
        texts.append(f"{none_text} is evicted or loses its GPUs")
    return "; ".join([*texts, *_unknown(cluster)])


def _unknown(cluster: ClusterChange) -> list[str]:
    """Return texts about what is unknown because it was not inspected."""
    limits = [limit for limit in cluster.limits if limit.what is Restriction.NOT_INSPECTED]
    return [_limit(limit, cluster) for limit in limits]


def _pod(pod: PodChange) -> str:
    gpus = f", {counted(pod.gpus, 'GPU')}" if pod.gpus else ", no GPU"
    name = f"{pod.namespace}/{pod.name}"
    escaped = "" if printable(name) == name else ", a name with escaped characters"
    return f"{code(name)} (on {code(pod.node)}{gpus}{escaped})"


def _down(cluster: ClusterChange) -> str:
    """Return which GPUs are unavailable to pods for a part of the run, by steps of the run."""
    if cluster.unknown:
        return "unknown, because the cluster was not inspected"
    unknown = _unknown(cluster)
    if not cluster.gaps:
        if not unknown:
            return "nothing" if cluster.limits else "nothing; every GPU stays usable"
        none_text = "no outage that was found" if cluster.uninspected else "no outage"
        return "; ".join([none_text, *unknown])
    word = outage_word(cluster)
    full = f"**{word}**, " if word else ""
    keeping = kept_by(cluster)
    steps = ["; ".join(_gone(gap, keeping) for gap in gaps) for gaps in outage_steps(cluster)]
    if len(steps) == 1:
        return "; ".join([f"{full}{steps[0]}", *unknown])
    more = [f"{len(steps) - GAPS} more steps"] if len(steps) > GAPS else []
    listed = (f"\n  {number}. {step}" for number, step in enumerate([*steps[:GAPS], *more], 1))
    head = "; ".join([f"{full}{len(steps)} steps, one after the other", *unknown])
    return head + "".join(listed)


def _gone(gap: Gap, keeping: str) -> str:
    gpus, names = counted(gap.gpus, "GPU"), _names(gap.nodes)
    if gap.at_most == gap.gpus:
        head = f"all {gpus} of {names} at the same time" if gap.gpus > 1 else f"{gpus} of {names}"
    else:
        head = f"at most {counted(gap.at_most, 'GPU')} at a time, {gap.gpus} of {names} in all"
    return f"{head}: {code(gap.why, DETAIL)}; {EVICTED if gap.evicts else KEPT.format(keeping)}"


def _limit(limit: Limit, cluster: ClusterChange) -> str:
    """Return the restriction of GPUs that stay up but are not usable as before."""
    of = f"{counted(limit.gpus, 'GPU')} of {_names(limit.nodes)}"
    if limit.what is Restriction.LEAVES_POOL:
        return (
            f"the stack no longer offers the {of}; the run removes the stack's labels and taints "
            f"from the node{'s' if limit.nodes[1:] else ''}, and neither drains nor cordons "
            f"{'them' if limit.nodes[1:] else 'it'}"
        )
    if limit.what is Restriction.UNDECLARED:
        return (
            f"the stack file declares {counted(limit.gpus, 'GPU')} less on {_names(limit.nodes)}, "
            f"which no new pod gets any more; {kept_by(cluster)} keep theirs"
        )
    if limit.what is Restriction.TAINT:
        verb = "run" if limit.evicts else "start"
        is_all = limit.gpus == cluster.gpus.after
        have = "have" if limit.nodes[1:] else "has"
        rest = f", which {have} all GPUs of the stack" if is_all else ""
        place = f"{_names(limit.nodes)}{rest}"
        return f"only pods that tolerate {code(limit.detail)} can {verb} on {place}"
    if not limit.nodes:
        return f"unknown: {code(limit.detail)}"
    hosts = "whose host" if len(limit.nodes) == 1 else "whose hosts"
    return (
        f"unknown for {_names(limit.nodes)} ({counted(limit.gpus, 'GPU')}), {hosts} did not answer"
    )


def _drained(nodes: Sequence[NodeChange], cluster: ClusterChange) -> str:
    idle = [n.node for n in cluster.nodes if n.outage is Outage.MIG_LAYOUT and n.wave is None]
    first = (
        f"{_names(idle)} first, without a drain, because no pod runs there; then " if idle else ""
    )
    if not nodes:
        return f"none; changed without a drain: {_names(idle)}" if idle else "none"
    waves: dict[int | None, list[str]] = {}
    for node in nodes:
        waves.setdefault(node.wave, []).append(node.node)
    booted = sum(node.rebooted for node in nodes)
    wave_texts = [
        f"{_names(names)}{at_a_time(len(names), cluster.at_once)}" for names in waves.values()
    ]
    more = f" and {len(wave_texts) - WAVES} more waves" if len(wave_texts) > WAVES else ""
    text = ", then ".join(wave_texts[:WAVES]) + more
    boots = f"{booted} rebooted" if booted else "none rebooted, as far as a preview can tell"
    return f"{first}{len(nodes)} drained ({text}), {boots}"


def _names(names: Iterable[str], most: int = NAMES, room: int = LONGEST) -> str:
    """Return names as ranges in code spans; names that don't fit are only counted."""
    name_ranges = ranges(names)
    range_texts: list[str] = []
    for name in name_ranges[:most]:
        room -= len(name)
        if range_texts and room < 0:
            break
        range_texts.append(code(name))
    return ", ".join(range_texts) + and_more(len(name_ranges), len(range_texts))


def _difference_words(
    statements: Iterable[Statement], text: Callable[[Statement], str] = statement_text
) -> str:
    """Return differences as one text, grouped by the nodes or hosts that they concern."""
    all_statements = list(statements)
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for statement in all_statements[:STATEMENTS]:
        groups.setdefault((statement.subject, statement.names), []).append(
            code(text(statement), DETAIL)
        )
    texts = [
        f"{subject} {_names(names)}: {', '.join(statement_texts)}"
        for (subject, names), statement_texts in groups.items()
    ]
    return "; ".join(texts) + and_more(len(all_statements), STATEMENTS)


def _drift_text(statement: Statement) -> str:
    """Return the text about drift: the value that a run applied, and the observed value."""
    if (not statement.was and not statement.now) or statement.aspect is Aspect.OBJECT:
        return statement_text(statement)
    was, now = statement.was or ABSENT, statement.now or ABSENT
    return f"{statement.what}: {'' if was == 'as applied' else f'applied {was}, '}found {now}"


def _folded(
    title: str,
    head: Sequence[str],
    items: Sequence[T],
    row: Callable[[T], Sequence[str]],
    most: int,
    note: str = "",
) -> Iterator[str]:
    """Yield a collapsed Markdown table; items after the first `most` are only counted."""
    if not items:
        return
    lines = [
        f"| {' | '.join(head)} |",
        f"|{' --- |' * len(head)}",
        *(f"| {' | '.join(row(item))} |" for item in items[:most]),
    ]
    more = f"\n\nand {len(items) - most} more" if len(items) > most else ""
    body = "\n".join(lines) + more if most else "too many to list here"
    yield f"<details><summary>{title} ({len(items)})</summary>\n\n{note}{body}\n\n</details>"


def _details(cluster: ClusterChange, most: int) -> Iterator[str]:
    amounts = [
        (pool.pool, name, numbers)
        for pool in cluster.pools
        for name, numbers in [
            ("GPUs", pool.gpus),
            *((resource.name, resource) for resource in pool.resources),
        ]
    ]
    if any(numbers.before != numbers.after for _, _, numbers in amounts):
        head: tuple[str, ...] = ("pool", "resource", "before", "after")
        yield from _folded("GPUs by pool and resource", head, amounts, _amount, most)
    if len(cluster.pods) > PODS:
        head = ("namespace", "pod", "node", "GPUs", "what happens")
        yield from _folded("Pods", head, cluster.pods, _pod_row, most)
    head = ("nodes", "pool", "GPUs", "what happens")
    yield from _folded("Nodes", head, _same_nodes(cluster.nodes), _node_row, most)
    head = ("what", "names", "difference")
    yield from _folded(CHANGES, head, own_changes(cluster), _statement_row, most)
    yield from _folded("Drift", head, cluster.drift, _drift_row, most)
    yield from _folded("Due", head, cluster.due, _statement_row, most)
    title = "Files on hosts that may be written"
    yield from _folded(title, ("hosts", "file"), cluster.files, _file_row, most)


def _amount(item: tuple[str, str, Numbers]) -> list[str]:
    pool, name, numbers = item
    before = "?" if numbers.before is None else str(numbers.before)
    return [code(pool), code(name), before, str(numbers.after)]


def _pod_row(pod: PodChange) -> list[str]:
    return [code(pod.namespace), code(pod.name), code(pod.node), str(pod.gpus), fate_text(pod)]


def _statement_row(statement: Statement) -> list[str]:
    return [statement.subject, _names(statement.names, 20), code(statement_text(statement), DETAIL)]


def _drift_row(statement: Statement) -> list[str]:
    names, text = _names(statement.names, 20), _drift_text(statement)
    return [statement.subject, names, code(text, DETAIL)]


def _file_row(statement: Statement) -> list[str]:
    return [_names(statement.names, 20), code(statement.what)]


def _rule_row(problem: Problem) -> list[str]:
    return [code(problem.rule), _at(problem), code(problem.text, 1000)]


def _resource_row(resource: Resource) -> list[str]:
    details = "<br>".join(map(code, resource.details))
    return [resource.operation, code(resource.type), code(resource.name), details]


def _at(problem: Problem) -> str:
    return code(f"{problem.file}:{problem.line}") if problem.line else ""


Same = tuple[str, str, str, tuple[str, ...]]
"""Pool, GPUs and what happens, with the names of all nodes to which the same happens."""


def _same_nodes(nodes: Iterable[NodeChange]) -> list[Same]:
    groups: dict[tuple[str, str, str], list[str]] = {}
    for node in nodes:
        pool = node.pool or "no pool"
        if node.was != node.pool:
            pool = f"{node.was or 'no pool'} → {pool}"
        gpus = numbers(node.gpus) if node.gpus else "?"
        wave = f" in wave {node.wave}" if node.wave else ""
        happens = [
            f"drained{wave}" if node.drained else "",
            "rebooted" if node.rebooted else "",
            "will be validated" if node.validated else "",
            "leaves the pool" if node.was and not node.pool else "",
            "moves to another pool" if node.was and node.pool not in ("", node.was) else "",
        ]
        groups.setdefault((pool, gpus, ", ".join(filter(None, happens))), []).append(node.node)
    return [(*key, tuple(names)) for key, names in groups.items()]


def _node_row(same: Same) -> list[str]:
    pool, gpus, happens, names = same
    return [_names(names, len(names), 1000), code(pool), gpus, happens or "changed"]


def _rules(document: Document, most: int) -> Iterator[str]:
    broken = [rule for rule in document.rules if rule.mandatory]
    if broken:
        yield "**Mandatory rules are violated:**\n\n" + block("\n".join(map(_placed, broken[:20])))
    advice = [rule for rule in document.rules if not rule.mandatory]
    yield from _folded("Advice of the rules", ("rule", "line", "text"), advice, _rule_row, most)


def _warnings(document: Document) -> Iterator[str]:
    """Yield the warnings, which speak against approving, so they are not folded."""
    warnings = list(
        dict.fromkeys(warning for cluster in document.clusters for warning in cluster.warnings)
    )
    if warnings:
        warning_lines = [f"- {code(_placed(warning), DETAIL)}" for warning in warnings[:PODS]]
        more = [f"- and {len(warnings) - PODS} more"] if warnings[PODS:] else []
        yield "\n".join(["**Warnings**", "", *warning_lines, *more])


def _engine(document: Document, most: int) -> Iterator[str]:
    if lines := list(object_lines(document)):
        yield block("\n".join(lines))
    head = ("operation", "type", "name", "change")
    yield from _folded("The engine's resources", head, document.resources, _resource_row, most)


def _footer(document: Document, origin: Origin) -> str:
    meanings = [f"{code(name)} ({LABELS[name]})" for name in labels(document)]
    sentences = [
        "This comment is updated with each push.",
        *([f"Labels: {', '.join(meanings)}."] if meanings else []),
    ]
    if origin.base:
        sentences.append(
            f"Simulated: {code(origin.base)} was brought up on an embedded cluster with the "
            f"machines of its hardware file, then {code(origin.commit[:12])} was previewed there. "
            f"{JUDGED if origin.is_by_base else REPORTED}"
        )
    elif origin.commit:
        sentences.append(f"Commit {code(origin.commit[:12])}, compared with the live cluster.")
    if re.fullmatch(r"https://[A-Za-z0-9./_-]{1,300}", origin.run):
        sentences.append(f"[Run]({origin.run})")
    return f"<sub>{' '.join(sentences)}</sub>"


def problems(document: Document) -> Iterator[Problem]:
    """Yield those problems of a document for which the line in the stack file is known."""
    all_problems = [*document.faults, *document.rules]
    for cluster in document.clusters:
        all_problems += [*cluster.faults, *cluster.warnings]
    yield from (problem for problem in dict.fromkeys(all_problems) if problem.line)
