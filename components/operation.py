"""Arguments of the Commands that run an operation on the engineer's machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pulumi

from components.findings import Finding, lines, told
from components.requests import Enclosed, write

FINDING = "GPU_CLUSTER_FINDING"
"""Variable that tells an operation why it runs again."""
DIGITS = 16
"""Of a finding's digest: two findings of one host never meet by chance."""


def command_line(program: str, action: str) -> str:
    """The shell line that runs a program of `components.programs`; names no path of one machine."""
    return f"sh components/run.sh {program} {action}"


def report(findings: Iterable[Finding]) -> None:
    """Show findings in the preview and in the run, but for what was never applied."""
    for line in lines(finding for finding in findings if not finding.first):
        pulumi.log.info(line)


def repair(findings: Sequence[Finding]) -> tuple[dict[str, str], list[str]]:
    """The ``environment`` of a local Command and what the engine is to ignore of it.

    What was found is an input of the Command: the preview shows it and the engine runs the update.
    Without a finding the engine keeps the environment of the last run, so that a repair is not
    followed by a change back. Never the command text: a finding holds names that others chose, and
    a shell reads that text.
    """
    if not findings:
        return {}, ["environment"]
    report(findings)
    return {FINDING: told(findings)}, []


def repair_line(
    line: str, findings: Sequence[Finding], kept: Sequence[str] = ()
) -> tuple[str, list[str]]:
    """The ``update`` line of a remote Command and what the engine is to ignore of it.

    Changes of the inputs ``kept`` are ignored too, as long as there is no finding.

    As `repair`, where no variable arrives: sshd takes those only that its AcceptEnv names
    (sshd_config(5)). So the line bears a digest, which holds nothing of what a host answered.
    """
    if not findings:
        return line, ["update", *kept]
    report(findings)
    digest = hashlib.sha256(told(findings).encode(errors="surrogatepass")).hexdigest()[:DIGITS]
    return f"{line} # finding {digest}", []


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
