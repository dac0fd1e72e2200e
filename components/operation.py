"""Arguments of the Commands that run an operation on the engineer's machine."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pulumi

from components.requests import Enclosed, write
from policies.printable import printable

FINDING = "GPU_CLUSTER_FINDING"
"""Variable that tells an operation why it runs again."""
#: The time at which something was found: it makes two findings differ, and no person needs it.
TIME = re.compile(r"(, | \()\d{4}-\d\d-\d\dT[\d:.]+Z\)?$")

#: Of what was never applied, or whose application did not end: no drift.
NEW = re.compile(r"(not applied|.*: not validated$)")
DIGITS = 16
"""Of a finding's digest: two findings of one host never meet by chance."""


def command_line(program: str, action: str) -> str:
    """The shell line that runs a program of `components.programs`; names no path of one machine."""
    return f"sh components/run.sh {program} {action}"


def report_drift(finding: str, subject: str = "") -> None:
    """Shows each part of a finding as a line ``drift: …`` in the preview and in the run.

    Args:
        finding: parts separated by ``; ``, with or without the time.
        subject: whose finding it is, where the parts don't say so, such as ``host gpu-1: ``.
    """
    for part in TIME.sub("", finding).split("; "):
        if not NEW.match(part):
            pulumi.log.info(f"drift: {subject}{printable(part)}")


def dated(finding: str) -> str:
    """Return a finding with the time at which it was made: no two runs have the same text."""
    return f"{finding} ({datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ})"


def repair(finding: str | None) -> tuple[dict[str, str], list[str]]:
    """The ``environment`` of a local Command and what the engine is to ignore of it.

    What was found to differ from what is declared is an input of the Command: the preview shows it
    and the engine runs the update. Without a finding the engine keeps the environment of the last
    run, so that a repair is not followed by a change back. Never the command text: a finding holds
    names that others chose, and a shell reads that text.

    Args:
        finding: one line, or None where nothing was found. Must differ between two runs.
    """
    if finding is None:
        return {}, ["environment"]
    report_drift(finding)
    return {FINDING: printable(finding)}, []


def repair_line(line: str, finding: str | None, kept: Sequence[str] = ()) -> tuple[str, list[str]]:
    """The ``update`` line of a remote Command and what the engine is to ignore of it.

    Changes of the inputs ``kept`` are ignored too, as long as there is no finding.

    As `repair`, where no variable arrives: sshd takes those only that its AcceptEnv names
    (sshd_config(5)). So the line bears a digest, which holds nothing of what a host answered.
    """
    if finding is None:
        return line, ["update", *kept]
    digest = hashlib.sha256(finding.encode(errors="surrogatepass")).hexdigest()[:DIGITS]
    return f"{line} # drift {digest}", []


def with_kubeconfig(kubeconfig: pulumi.Input[str]) -> pulumi.ResourceTransformation:
    """Return a transformation that gives a kubeconfig to the program of each local Command.

    A transformation, so that no Command of today or tomorrow reaches the machine's cluster instead.

    Args:
        kubeconfig: its contents, which become a secret.
    """

    def enclose(
        args: pulumi.ResourceTransformationArgs,
    ) -> pulumi.ResourceTransformationResult | None:
        if args.type_ != "command:local:Command":
            return None
        both = pulumi.Output.all(pulumi.Output.secret(kubeconfig), args.props["stdin"])
        stdin = both.apply(lambda given: write(Enclosed(kubeconfig=given[0], request=given[1])))
        return pulumi.ResourceTransformationResult({**args.props, "stdin": stdin}, args.opts)

    return enclose


def parsed(result: pulumi.Output[str]) -> pulumi.Output[dict[str, Any]]:
    """A Command's standard output as JSON.

    A secret among its inputs makes all of its outputs secret; our programs print nothing of it.
    """
    return pulumi.Output.unsecret(result).apply(lambda text: dict(json.loads(text)) if text else {})
