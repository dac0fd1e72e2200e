"""Run `gpu-cluster preview`: show what `gpu-cluster up` would change, checked by the policy pack.

The program changes neither the cluster nor a host, and does not start the embedded cluster.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gpu_cluster.change.document import (
    Document,
    Outcome,
    Problem,
    SettingEdit,
)
from gpu_cluster.change.edits import edits
from gpu_cluster.change.file import VARIABLE, replace_text
from gpu_cluster.change.lines import StackFile, located
from gpu_cluster.change.text import (
    edit_lines,
    health_text,
    move_text,
    object_lines,
    prospect,
    refusal_lines,
    upgrade_lines,
)
from gpu_cluster.cluster import SETTINGS, GpuCluster
from gpu_cluster.commands.annotations import annotate
from gpu_cluster.commands.change_document import EngineSteps, assembled
from gpu_cluster.commands.contexts import require_context
from gpu_cluster.commands.display import Display
from gpu_cluster.commands.engine import move_of, select, stale
from gpu_cluster.commands.failure import stop
from gpu_cluster.commands.files import new_file
from gpu_cluster.commands.lab import embedded_cluster
from gpu_cluster.commands.output import apart, say
from gpu_cluster.commands.packs import RULES, place_pack
from gpu_cluster.commands.project import ROOT
from gpu_cluster.commands.refused_workloads import GuardrailEffects, guardrail_effects
from gpu_cluster.commands.release_notes import upgrade_of
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.state import export_state, resources_of
from gpu_cluster.commands.upgrade_check import deployed_resources, recorded_version
from gpu_cluster.commands.watched import Failed, watched
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.guardrails.component import GuardrailsArgs
from gpu_rules.faults import ConfigError
from gpu_rules.version import VERSION


@contextmanager
def documents(folder: Path) -> Iterator[None]:
    """Make the Pulumi program write its change documents to a folder while the context is open."""
    previous_value = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(folder)
    try:
        yield
    finally:
        if previous_value is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = previous_value


def run(stack: Stack) -> Document:
    """Preview the stack; return the change document, also if the preview failed."""
    require_context(stack)
    if cluster := embedded_cluster(stack):
        cluster.require_running()
        cluster.note_absent_machines()
    selected = select(stack)
    exported = export_state(selected)
    move = move_of(stack, exported)
    if move:
        say(f"{move_text(move)}.")
    display = Display(say, preview=True)
    cause, steps = "", {}
    with tempfile.TemporaryDirectory(dir=stack.scratch) as name, documents(Path(name)):
        try:
            result = watched(
                selected.preview,
                {},
                display=display,
                preview=True,
                policy_packs=[place_pack(RULES)],
                refresh=stale(stack, exported),
            )
            steps = {str(kind): count for kind, count in result.change_summary.items()}
        except Failed as error:
            cause = str(error)
        written_documents = [
            Document.read(path.read_bytes()) for path in sorted(Path(name).glob("*.json"))
        ]
    file = StackFile.read(stack.file)
    edited = edits_since(resources_of(exported), file)
    effects = newly_refused(stack, edited)
    document = assembled(
        stack.name,
        written_documents,
        EngineSteps(
            resources=display.resources,
            steps=steps,
            rules=tuple(display.rules),
            errors=tuple(display.errors),
            cause=cause,
            move=move,
        ),
        file,
    )
    upgrade = upgrade_of(recorded_version(resources_of(exported)), VERSION, file)
    return document.model_copy(
        update={
            "edits": edited,
            "refused": effects.refused,
            "quotas": effects.quotas,
            "unjudged": effects.unjudged,
            "upgrade": upgrade,
        }
    )


def edits_since(
    resources: Iterable[Mapping[str, Any]], file: StackFile
) -> tuple[SettingEdit, ...] | None:
    """Return the edits of a stack file since the last run that succeeded.

    Args:
        resources: Resources in the stack's state.

    Returns:
        The edits; None if the state has no settings of an earlier run.
    """
    for resource in resources:
        recorded = (resource.get("outputs") or {}).get(SETTINGS)
        if resource["type"] == GpuCluster.TYPE and isinstance(recorded, str):
            with suppress(ValueError):
                return edits(recorded, file.settings)
    return None


def newly_refused(stack: Stack, edited: tuple[SettingEdit, ...] | None) -> GuardrailEffects:
    """Return the effects of edited guardrails on running workloads."""
    sections = None if edited is None else {re.split(r"[.\[]", each.path)[0] for each in edited}
    if sections is not None and not sections & {"guardrails", "rules"}:
        return GuardrailEffects()
    desired = resolve(stack.cluster, stack.name)
    if desired.guardrails is None:
        return GuardrailEffects()
    args = GuardrailsArgs(
        context=desired.rules, own=desired.privileged_namespaces, guardrails=desired.guardrails
    )
    return asyncio.run(guardrail_effects(desired.context, args))


def previewed(stack: Stack) -> Document:
    """Preview the stack; return a failed preview if the stack file has a fault."""
    try:
        with stack.unsalted():
            return run(stack)
    except ConfigError as error:
        print(error, file=sys.stderr, flush=True)
        faults = tuple(Problem(text=str(fault)) for fault in error.faults)
        cause = f"{error.source}: {faults[0].text}"
        file, resources = StackFile.read(stack.file), deployed_resources(stack)
        document = Document(
            stack=stack.name,
            outcome=Outcome.FAILED,
            edits=edits_since(resources, file),
            faults=faults,
            cause=cause,
            upgrade=upgrade_of(recorded_version(resources), VERSION, file),
        )
        return located(document, file)


def show(document: Document) -> None:
    """Print changes that the program has not printed itself; exit with 1 if the preview failed."""
    for line in (
        *upgrade_lines(document),
        *edit_lines(document),
        *refusal_lines(document),
        *object_lines(document),
    ):
        say(line)
    if document.outcome is Outcome.FAILED:
        stop(f"preview: failed: {document.cause}")
    if document.outcome is Outcome.CHANGED:
        for text in dict.fromkeys(map(prospect, document.clusters)):
            say(f"will the run succeed: {text}")
    steps = ", ".join(f"{count} {kind}" for kind, count in document.steps.items())
    say(
        "; ".join(
            filter(None, (f"preview: {steps or 'no change'}", health_text(document.clusters)))
        )
    )


def main(*, file: str = "") -> None:
    """Run the preview; exit with 1 if it fails or if a mandatory rule is violated.

    Args:
        file: File that gets the change document; empty: the one that GPU_CLUSTER_CHANGE names.
    """
    stack = Stack.named()
    with apart() as output:
        file_name = file or os.environ.get(VARIABLE, "")
        path = new_file("--file" if file else VARIABLE, file_name) if file_name else None
        document = previewed(stack)
        if path:
            replace_text(path, document.write())
        for line in annotate(document, os.environ, ROOT):
            print(line, file=sys.stderr, flush=True)
        try:
            show(document)
        finally:
            if output:
                output.write(document.write())
