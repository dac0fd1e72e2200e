"""Markdown of pull request comments: complete, escaped, and below the size limit."""

from __future__ import annotations

import re
from typing import Any

import pytest
from markdown_it import MarkdownIt

from gpu_cluster.change.document import (
    ClusterChange,
    Document,
    Down,
    Gap,
    Loss,
    NodeChange,
    Numbers,
    Outage,
    Outcome,
    PodChange,
    PoolChange,
    Problem,
    QuotaUse,
    RefusedWorkload,
    Resource,
    SettingEdit,
    Statement,
    VersionChange,
    conclusion,
    stopping,
)
from gpu_cluster.change.text import lines, outage_steps
from gpu_cluster.commands.forges.comment_markdown import (
    LABELS,
    LIMIT,
    MARK,
    Origin,
    block,
    code,
    is_silent,
    labels,
    outdated,
    problems,
    rendered,
)
from gpu_cluster.findings import Aspect
from tests.commands.forges.hostile import HOSTILE
from tests.components.change.edits import BARE, EDITS, document_of
from tests.components.change.world import World, base, pod

LONGEST_TEXT = 64 * 1024
"""Characters of the longest text that a document may have."""


def hostile(text: str) -> Document:
    """Return a change document with one text in every field that can have text from outside."""
    text = text[:LONGEST_TEXT]
    statement = Statement(
        subject="node", names=(text,), aspect=Aspect.VALUE, key=text, was=text, now=text
    )
    problem = Problem(text=text, rule=text, mandatory=False, file=text, line=3)
    cluster = ClusterChange(
        name=text,
        unknown=text,
        pools=(PoolChange(pool=text, gpus=Numbers(before=8, after=4)),),
        nodes=(NodeChange(node=text, was=text, pool="b", outage=Outage.ROLLOUT, drained=True),),
        pods=tuple(
            PodChange(namespace=text, name=text, node=text, gpus=1, loss=Loss.EVICTED)
            for _ in range(12)
        ),
        gaps=(Gap(why=text, nodes=(text,), gpus=8, at_most=8),),
        versions=(VersionChange(part=text, where=(text,), was=text, now=text),),
        changes=(statement,),
        drift=(statement,),
        due=(statement,),
        faults=(problem,),
        warnings=(problem,),
        uninspected=(text,),
        notes=(text,),
        maintenance=(text,),
    )
    return Document(
        stack=text,
        outcome=Outcome.FAILED,
        clusters=(cluster, cluster.model_copy(update={"name": "second"})),
        resources=(Resource(operation="create", type=text, name=text, details=(text,)),),
        rules=(problem, problem.model_copy(update={"mandatory": True})),
        faults=(problem,),
        cause=text,
    )


def tokens(body: str) -> list[Any]:
    """Return all tokens of a Markdown text, parsed as CommonMark with tables."""
    found = []
    for token in MarkdownIt("commonmark").enable("table").parse(body):
        found += [token, *(token.children or [])]
    return found


ALLOWED = re.compile(r"</?(details|summary|sub|br)>|<!-- gpu-cluster change: .* -->|[^<>]*")


@pytest.mark.promise(
    "No name of a pod, node or host can break out of a comment: no HTML, link, picture, mention or "
    "command of a forge."
)
@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_stays_text(text: str) -> None:
    for body in (rendered(hostile(text)), outdated(rendered(hostile(text)))):
        for token in tokens(body):
            assert token.type not in ("image", "link_open"), token
            if token.type in ("html_block", "html_inline"):
                parts = re.split(r"(<[^>]*>)", token.content)
                assert all(ALLOWED.fullmatch(part.strip()) for part in parts), token.content
        assert len(body.encode()) <= LIMIT
        lines = body.splitlines()
        assert len([line for line in lines if MARK.match(line)]) == 1
        assert not [line for line in lines if line.startswith("/")]
        assert body.replace("\n", "").isprintable()
        plain = re.sub(r"(`+).*?\1", "", re.sub(r"(?ms)^(```+)text$.*?^\1$", "", body))
        assert "@everyone" not in plain
        assert "::error" not in plain


@pytest.mark.parametrize("text", [*HOSTILE, "", " ", "`", "a`b", "``"])
def test_a_code_span_is_one_span_with_the_text(text: str) -> None:
    inline = [token for token in tokens(f"x {code(text)} y") if token.type == "code_inline"]
    assert len(inline) == 1
    fenced = [token for token in tokens(block(text)) if token.type == "fence"]
    assert len(fenced) == 1
    assert not [token for token in tokens(block(text)) if token.type == "paragraph_open"]


def thousand() -> Document:
    """Return a document about 1,000 nodes with 8 pods each, with long names that form no ranges."""
    nodes = tuple(
        NodeChange(
            node=f"node-{n * 7}-{'x' * 40}", was="a", pool="a", gpus=Numbers(before=8, after=4),
            outage=Outage.ROLLOUT, wave=1 + n, drained=True, validated=True,
        )
        for n in range(1000)
    )  # fmt: skip
    pods = tuple(
        PodChange(
            namespace="n" * 63, name=f"{'p' * 240}-{n}", node=nodes[n // 4].node, gpus=1,
            loss=Loss.EVICTED,
        )
        for n in range(4000)
    )  # fmt: skip
    names = tuple(node.node for node in nodes)
    drift = tuple(
        Statement(subject="node", names=(name,), aspect=Aspect.LABEL, key=name, was="a")
        for name in names
    )
    pools = (PoolChange(pool="a", gpus=Numbers(before=8000, after=4000)),)
    resources = tuple(
        Resource(operation="update", type="command:remote:Command", name=name) for name in names
    )
    cluster = ClusterChange(
        name="c", pools=pools, nodes=nodes, pods=pods, drift=drift, changes=drift, due=drift,
        gaps=tuple(Gap(why=f"why {n}", nodes=names, gpus=8000, at_most=8) for n in range(3)),
        down=Down(nodes=names, gpus=8000, at_most=8),
    )  # fmt: skip
    return Document(stack="prod", outcome="changed", clusters=(cluster,), resources=resources)


def test_a_thousand_nodes_fit_the_limit_and_keep_the_answers() -> None:
    body = rendered(thousand())
    assert len(body.encode()) <= LIMIT
    assert "**GPUs**: 8000 before, 4000 after" in body
    assert "**4000 pods are evicted**" in body
    assert "**Drained and rebooted nodes**: 1000 drained" in body
    assert body.count("<details>") == body.count("</details>")
    again = outdated(body)
    assert len(again.encode()) <= LIMIT


def lines_of(body: str) -> dict[str, str]:
    """Return the lines of a comment by their bold titles, without a parenthesis after the title."""
    found = re.findall(r"(?m)^- \*\*([^*]+)\*\*(?: \([^)]*\))?: (.*)$", body)
    return dict(found)


@pytest.mark.promise(
    "A pull request's comment says what happens to each pod, and what happens to GPUs meanwhile."
)
@pytest.mark.parametrize(
    ("name", "title", "text"),
    [
        ("half of the GPUs, with pods that hold them", "Pods",
         "**2 pods keep running until they end, on more GPUs than declared"),
        ("a node fewer, with a pod on it", "Pods",
         "**1 pod keeps running on its GPUs until it ends; then no pod gets them any more because "
         "its node leaves the pool**: `team-a/train-0`"),
        ("the driver goes up", "Pods", "**2 pods are evicted because their nodes are drained**"),
        ("the operator's driver goes down", "Pods",
         "a GPU pod that runs on `gpu-1..4` when the node's driver is replaced is evicted"),
        ("a new taint that evicts", "Pods", "**3 pods are evicted because of the new taint**"),
        ("the GPU Operator", "Pods", "**2 pods keep running, but nothing advertises their GPUs"),
        ("a node fewer", "After the run",
         "the stack no longer offers the 8 GPUs of `gpu-4`; the run removes the stack's labels and "
         "taints from the node, and neither drains nor cordons it"),
        ("a node in maintenance", "GPUs",
         "32 before, 32 after, 8 of them on `gpu-3` in maintenance"),
        ("shared GPUs", "Shared GPUs",
         "pool `a100`: up to 4 pods share a GPU: they take turns, each of them can use all of its "
         "memory, and a crash of one can end the others"),
        ("the driver goes up", "Pods",
         "drained**; controllers create them again, and then they wait until nodes have room: "),
        ("a new taint that evicts", "Pods",
         "taint**; controllers create them again, but not on a node with this taint, which they "
         "don't tolerate: "),
        ("the loaded driver from a package", "Drained and rebooted nodes",
         "2 drained (`gpu-1`, then `gpu-2`), none rebooted, as far as a preview can tell"),
        ("a sick GPU left out", "After the run",
         "the stack file declares 1 GPU less on `gpu-2`, which no new pod gets any more"),
        ("a new taint", "After the run",
         "only pods that tolerate `example.com/own=x:NoSchedule` can start on `gpu-1..4`, which "
         "have all GPUs of the stack"),
        ("a new taint that evicts", "After the run",
         "only pods that tolerate `example.com/own=x:NoExecute` can run on `gpu-1..4`"),
        ("a host that does not answer", "Down meanwhile",
         "unknown for `gpu-2` (8 GPUs), whose host did not answer"),
        ("the GPU Operator", "Down meanwhile",
         "**no new GPU pods**, all 32 GPUs of `gpu-1..4` at the same time"),
        ("an older chart", "Down meanwhile", "at most 8 GPUs at a time, 32 of `gpu-1..4` in all"),
        ("devices by environment", "Down meanwhile", "2 steps, one after the other"),
        ("partitioned GPUs", "Down meanwhile", "2 steps, one after the other"),
        ("partitioned GPUs", "Drained and rebooted nodes",
         "`gpu-4` first, without a drain, because no pod runs there; then 3 drained (`gpu-1`,"),
        ("a new label", "Changed on hosts and nodes", "`label team=ml is added`"),
        ("devices by environment", "Also changed on hosts and nodes",
         "host `gpu-1..2`: `runtime.devicesByEnvironment false → true`"),
        ("devices by environment", "Also changed on hosts and nodes",
         "node `gpu-1..4`: `devicePlugin.* changed, which follows from the edits`"),
        ("a label removed by hand", "Drift", "`label nvidia.com/gpu: applied true, found absent`"),
    ],
)  # fmt: skip
def test_a_comment_tells_a_stranger_what_happens(name: str, title: str, text: str) -> None:
    assert text in lines_of(rendered(document_of(name)))[title]


def title_of(name: str) -> str:
    return rendered(document_of(name)).splitlines()[1]


def test_the_title_says_when_no_gpu_can_be_got_meanwhile_and_how_gpus_are_split() -> None:
    assert title_of("the GPU Operator").endswith("**no new GPU pods meanwhile**")
    assert "meanwhile" not in title_of("the driver goes up")
    assert title_of("partitioned GPUs").endswith("`nvidia.com/gpu` 32 → 224, **3 pods evicted**")


@pytest.mark.parametrize(
    ("evicts", "word"), [(True, "full outage meanwhile"), (False, "no new GPU pods meanwhile")]
)
def test_an_outage_that_evicts_nobody_is_no_full_outage(evicts: bool, word: str) -> None:
    gap = Gap(why="a", nodes=("n",), gpus=8, at_most=8, evicts=evicts)
    cluster = ClusterChange(
        name="c",
        pools=(PoolChange(pool="p", gpus=Numbers(before=8, after=8)),),
        gaps=(gap,),
        down=Down(nodes=("n",), gpus=8, at_most=8),
    )
    document = Document(stack="dev", outcome=Outcome.CHANGED, clusters=(cluster,))
    assert rendered(document).splitlines()[1].endswith(f"**{word}**")
    assert any(line.startswith(word) for line in lines(cluster))


def test_the_steps_of_an_outage_are_numbered_in_their_order() -> None:
    body = rendered(document_of("devices by environment"))
    items = re.findall(r"(?m)^  ([0-9])\. (.*)$", body)
    assert [number for number, _ in items] == ["1", "2"]
    assert "drained for" in items[0][1]
    assert "pods that are not evicted keep theirs" in items[1][1]


def test_the_platform_restarts_before_gpus_are_partitioned() -> None:
    items = re.findall(r"(?m)^  [0-9]\. (.*)$", rendered(document_of("partitioned GPUs")))
    assert "the pods of gpu-operator restart, node by node" in items[0]
    assert "MIG layout not declared → 7x1g.5gb-" in items[1]


def test_the_reasons_of_one_rollout_are_one_step() -> None:
    nodes = tuple(NodeChange(node=n, outage=Outage.ROLLOUT, wave=1, drained=True) for n in "ab")
    gaps = tuple(Gap(why=f"drained for {n}", nodes=(n,), gpus=8, at_most=8) for n in "ab")
    plugin = Gap(why="restart", nodes=("a", "b"), gpus=16, at_most=8, evicts=False)
    cluster = ClusterChange(name="c", nodes=nodes, gaps=(*gaps, plugin))
    assert outage_steps(cluster) == [list(gaps), [plugin]]


def test_a_renamed_pool_is_not_validated_again() -> None:
    (cluster,) = document_of("a renamed pool").clusters
    assert not any(node.validated or node.drained for node in cluster.nodes)
    assert (cluster.due, cluster.gaps, cluster.limits, cluster.pods) == ((), (), (), ())
    assert "`moves from a100 to b`" in rendered(document_of("a pool split"))


@pytest.mark.promise("A comment begins with the faults that would stop the run.")
def test_a_fault_that_stops_the_run_is_the_first_text_of_the_comment() -> None:
    document = document_of("devices by environment, with a pod that may not be evicted")
    (fault,) = document.clusters[0].faults
    _, title, cause, *_ = re.split(r"\n+", rendered(document), maxsplit=3)
    assert title == "### Stack `dev`: the preview failed"
    assert cause.startswith(
        "`gpu-cluster up` would fail in the same way, before it changes anything"
    )
    assert fault.text in rendered(document).partition("- **GPUs**")[0]


def test_a_failed_preview_says_that_gpus_and_pods_are_unknown() -> None:
    body = rendered(Document(stack="dev", outcome=Outcome.FAILED, cause="a plugin ended"))
    assert "before it changes anything" in body
    assert "**GPUs and pods**: unknown" in body


def test_lists_are_cut_between_items_and_names_keep_their_ends() -> None:
    body = rendered(thousand())
    assert "characters more)" not in body
    names = re.search(r"Will be validated\*\* \([^)]*\): (.*)", body)
    assert names is not None
    shown = re.findall(r"`(node-[0-9]+-x{40})`", names[1])
    assert names[1].endswith(f" and {1000 - len(shown)} more")
    assert f"{'p' * 240}-0`" in body


def test_pods_of_a_simulated_cluster_are_called_so() -> None:
    document = document_of("a new label")
    assert "simulated" not in lines_of(rendered(document))["Pods"]
    assert (
        "pods of the simulated cluster" in lines_of(rendered(document, Origin(base="main")))["Pods"]
    )


@pytest.mark.parametrize("name", EDITS)
def test_a_comment_answers_gpus_pods_and_what_is_down(name: str) -> None:
    document = document_of(name)
    if is_silent(document):
        return
    body = rendered(document, Origin(commit="a" * 40))
    assert len(body.encode()) <= LIMIT
    (cluster,) = document.clusters
    if document.outcome is Outcome.FAILED:
        assert "none is evicted" not in body
        assert "every GPU stays usable" not in body
        return
    declared = cluster.declared
    assert f"- **GPUs**: {declared.before} before, {declared.after} after" in body
    for lost in cluster.pods[:5]:
        assert code(f"{lost.namespace}/{lost.name}") in body
    told = lines_of(body)
    if not cluster.pods and cluster.uninspected:
        assert "none that was found is evicted" in told["Pods"]
        assert "unknown for `gpu-2`" in told["Pods"]
    elif not cluster.pods and any(gap.evicts for gap in cluster.gaps):
        assert "no pod to evict runs now; a" in told["Pods"]
    elif not cluster.pods:
        assert told["Pods"] == "none is evicted or loses its GPUs"
    for gap in cluster.gaps:
        assert code(gap.why, 1000) in body
    usable = not (cluster.gaps or cluster.limits or cluster.uninspected)
    assert (told["Down meanwhile"] == "nothing; every GPU stays usable") == usable
    assert ("Due" in told) == bool(cluster.due)
    assert body.count("<details>") == body.count("</details>")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("half of the GPUs", ("gpus",)),
        ("a new label", ()),
        ("a renamed pool", ()),
        ("a pool split", ()),
        ("a label removed by hand", ("drift",)),
        ("the loaded driver goes down", ("disruptive",)),
        ("a node fewer, with a pod on it", ("gpus", "disruptive")),
        ("the GPU Operator", ("disruptive",)),
    ],
)
def test_labels_say_what_kind_of_change_it_is(name: str, expected: tuple[str, ...]) -> None:
    assert labels(document_of(name)) == expected
    assert set(expected) <= set(LABELS)


def test_a_comment_says_where_it_comes_from() -> None:
    document = document_of("half of the GPUs")
    real = rendered(document, Origin(commit="a" * 40, run="https://forge.example/runs/1"))
    assert "Simulated" not in real
    assert "[Run](https://forge.example/runs/1)" in real
    assert "Run" not in rendered(document, Origin(run="javascript:alert(1)"))


def test_an_outdated_comment_is_marked_once() -> None:
    body = rendered(document_of("half of the GPUs"))
    once = outdated(body, Origin(commit="a" * 40))
    assert outdated(once, Origin(commit="b" * 40)) == once
    match = MARK.match(once)
    assert match is not None
    assert match["labels"] == ""
    assert "This comment is updated" not in once
    assert "changes nothing: 32 GPUs, as before." in outdated(body, gpus=32)


def test_only_problems_with_a_line_are_annotations() -> None:
    lined = Problem(text="a", file="Pulumi.dev.yaml", line=3)
    document = Document(
        stack="dev",
        outcome=Outcome.FAILED,
        faults=(lined, Problem(text="b")),
        clusters=(ClusterChange(name="c", warnings=(lined,)),),
    )
    assert list(problems(document)) == [lined]


def test_a_comment_begins_and_ends_with_where_gpus_are_that_pods_cannot_use() -> None:
    parts = rendered(document_of("a GPU that is gone"), Origin()).split("\n\n")
    sentence = "Now: `31 of 32 GPUs usable; gpu-2: 1 unhealthy or withdrawn`"
    assert (parts[1], parts[-2]) == (sentence, sentence)
    assert "GPUs usable" not in rendered(document_of("half of the GPUs"), Origin())


@pytest.mark.parametrize("name", EDITS)
def test_the_comment_begins_with_the_edits_in_the_stack_files_words(name: str) -> None:
    document = document_of(name)
    text = rendered(document)
    assert ("**Edited in the stack file**" in text) == bool(document.edits)
    for edit in (document.edits or ())[:12]:
        assert f"- {code(edit.path)}: " in text


@pytest.mark.promise(
    "If guardrails are edited, the comment names the running workloads that can't start again."
)
def test_refused_workloads_are_named_and_not_folded() -> None:
    refused = RefusedWorkload(
        kind="Deployment", namespace="team-a", name="web", pods=2, why="GPU002 a limit"
    )
    document = document_of("nothing").model_copy(
        update={"outcome": Outcome.CHANGED, "refused": (refused,)}
    )
    text = rendered(document)
    head = "**The guardrails refuse new pods of 1 running workload.**"
    assert f"{head} Pods that run now go on until they end." in text
    assert "- `Deployment team-a/web` (2 pods): `GPU002 a limit`" in text
    assert text.index(head) < (text.find("<details>") + 1 or len(text))
    unknown = rendered(document.model_copy(update={"refused": (), "unjudged": "forbidden"}))
    assert "**New pods that the guardrails refuse**: unknown" in unknown


@pytest.mark.parametrize(
    ("used", "text"),
    [
        (12, "at most 16 `nvidia.com/gpu` for all pods together; they request 12 now\n"),
        (24, "they request 24 now, which is more: these pods go on, but no new pod"),
        (None, "how many they request now is unknown"),
    ],
)
def test_a_quota_is_said_with_what_is_used_of_it(used: int | None, text: str) -> None:
    use = QuotaUse(namespace="team-a", resource="nvidia.com/gpu", limit=16, used=used)
    document = document_of("nothing").model_copy(
        update={"outcome": Outcome.CHANGED, "quotas": (use,)}
    )
    assert "- namespace `team-a`: at most 16 " in rendered(document)
    assert text in rendered(document)


@pytest.mark.promise(
    "A comment says whether the run will succeed, and what can still make it fail."
)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a new label", "yes, as far as a preview can tell: nothing was found that stops it"),
        ("shared GPUs", "or if a kernel fails on a GPU of `gpu-1..4`"),
        ("another kernel", "or if `gpu-1..2` doesn't come back from its reboot or if"),
        ("an older chart", "It fails if the platform's pods don't start on `gpu-1..4`"),
    ],
)
def test_a_comment_says_whether_the_run_will_succeed(name: str, text: str) -> None:
    assert text in lines_of(rendered(document_of(name)))["Will the run succeed"]


def test_a_comment_about_a_stack_file_that_does_not_load_says_what_was_edited() -> None:
    edit = SettingEdit(path="devicePlugin.version", now="0.0.1")
    failed = Document(stack="dev", outcome=Outcome.FAILED, edits=(edit,), cause="no such chart")
    assert "- `devicePlugin.version`: added, `0.0.1`" in rendered(failed)
    unknown = failed.model_copy(update={"edits": None})
    assert "**Edited in the stack file**: unknown" in rendered(unknown)


def test_what_speaks_against_approving_is_not_folded() -> None:
    document = document_of("nothing")
    (cluster,) = document.clusters
    warning = Problem(text="driver 550.1 has a security hole", mandatory=False)
    noted = cluster.model_copy(update={"warnings": (warning,)})
    text = rendered(document.model_copy(update={"clusters": (noted,)}))
    assert "**Warnings**\n\n- `driver 550.1 has a security hole`" in text


def test_nodes_in_maintenance_are_not_said_to_be_as_before() -> None:
    document = document_of("nothing")
    (cluster,) = document.clusters
    numbers = Numbers(before=8, after=8)
    resting = cluster.model_copy(
        update={"maintenance": ("gpu-3", "@team **x**"), "resting": numbers}
    )
    text = rendered(
        document.model_copy(update={"outcome": Outcome.CHANGED, "clusters": (resting,)})
    )
    assert "40 GPUs, as before, 8 of them on `@team **x**`, `gpu-3` in maintenance" in text


def both_edits(effect: str, **pool: Any) -> Document:
    """Return the document about a pool with a new taint and another edit."""
    after = base()
    taints = ["nvidia.com/gpu=present:NoSchedule", f"example.com/own=x:{effect}"]
    after["pools"][0] |= {"taints": taints, **pool}
    change = World.of(base()).change(after)
    outcome, cause = conclusion(stopping([change]), is_changed=True)
    return Document(stack="dev", outcome=outcome, cause=cause, clusters=(change,))


def test_a_taint_and_fewer_gpus_are_not_counted_beside_each_other() -> None:
    said = lines_of(rendered(both_edits("NoSchedule", gpusPerNode=4)))["After the run"]
    assert said.startswith("only pods that tolerate `example.com/own=x:NoSchedule` can start on")
    assert "GPUs of `gpu-1..4`" not in said


def test_where_a_taint_evicts_running_pods_are_not_said_to_keep_their_gpus() -> None:
    document = both_edits("NoExecute", unhealthyDevices={"gpu-3": {"index": [2]}})
    assert document.clusters[0].limits[1].evicts
    text = rendered(document)
    assert "which no new pod gets any more; pods that are not evicted keep theirs" in text
    assert "running pods keep theirs" not in text


def test_a_pod_without_a_controller_is_not_said_to_come_back() -> None:
    after = {
        **base(),
        "runtime": {"devicesByEnvironment": True},
        "rollout": {"evict": ["unmanaged"]},
    }
    world = World.of(base())
    world.pods = [pod("train", "gpu-1", 4), BARE]
    change = world.change(after)
    document = Document(stack="dev", outcome=Outcome.CHANGED, clusters=(change,))
    said = lines_of(rendered(document))["Pods"]
    assert "a controller creates it again, and then it waits until a node has room" in said
    assert "**1 pod is evicted because its node is drained**; nothing creates it again: " in said


def test_labels_are_shown_with_their_meaning() -> None:
    text = rendered(document_of("a node fewer, with a pod on it"))
    meant = "Labels: `gpus` (another number of GPUs), `disruptive` (pods, nodes or GPUs disturbed)."
    assert meant in text
    assert "Labels:" not in rendered(document_of("a new label"))


def test_the_settings_of_new_steps_are_counted_as_the_table_lists_them() -> None:
    text = rendered(document_of("the loaded driver from a package"))
    told = re.search(r"`new: steps packages, driver with (\d+) settings`", text)
    rows = re.search(r"follow from the edits \((\d+)\)", text)
    assert told
    assert rows
    assert int(told[1]) + 2 == int(rows[1])


def test_a_loss_names_what_to_write_for_each_kind_of_pod() -> None:
    name = "devices by environment, with a pod that may not be evicted"
    (fault,) = document_of(name).clusters[0].faults
    assert "write unmanaged for pods that nothing creates again" in fault.text


@pytest.mark.parametrize("name", ["a new taint that evicts", "devices by environment"])
def test_running_pods_are_not_said_to_keep_their_gpus_beside_an_eviction(name: str) -> None:
    text = rendered(document_of(name))
    assert "evicted" in text
    assert "running pods keep theirs" not in text
    assert "pods that are not evicted keep theirs" in text


def test_no_setting_is_said_to_change_that_nobody_edited() -> None:
    text = rendered(document_of("a sick GPU left out"))
    assert "gpusPerNode" not in text
    assert "number of GPUs that the validation expects 8 → 7" in text


def test_a_setting_of_hosts_has_one_value_before_the_edit() -> None:
    text = rendered(document_of("the loaded driver from a package"))
    assert "driver.source not declared → package" in text
    assert "driver.source preinstalled" not in text


def test_nodes_without_a_host_get_no_driver() -> None:
    text = rendered(document_of("the loaded driver from a package"))
    assert (
        "- `gpu-3..4 have no host in the stack file: gpu-cluster installs no driver there`" in text
    )


def test_gpus_that_a_failing_run_would_not_take_are_not_said_to_go() -> None:
    text = rendered(document_of("half of the GPUs"))
    assert "the nodes would go on advertising 8, and a run would wait for 4" in text
    assert "**GPUs**: 32 now; the stack file declares 16" in text
    assert "no new pod gets" not in text


def test_effects_of_a_run_that_fails_are_not_said_to_happen() -> None:
    stopped = document_of("devices by environment, with a pod that may not be evicted")
    assert "**What the stack file asks for; a run refuses it and changes nothing**" in rendered(
        stopped
    )
    assert "**Will " not in rendered(stopped)
    assert "**What a run would do**\n" in rendered(document_of("shared GPUs"))


def test_a_setting_that_the_edits_name_is_not_said_again_without_its_values() -> None:
    document = document_of("shared GPUs")
    assert "devicePlugin.* changed" not in rendered(document).partition("<details>")[0]
    unknown = document.model_copy(update={"edits": None})
    assert "devicePlugin.* changed" in rendered(unknown).partition("<details>")[0]
