"""Arguments of pulumi-command Commands that run this project's programs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi_command import local

from gpu_cluster.findings import Finding, told
from gpu_cluster.requests import Enclosed, write

FINDING = "GPU_CLUSTER_FINDING"
"""Environment variable with the findings that cause an operation to run again."""
PROGRAM = "gpu-cluster-program"
"""Script that runs a program of `gpu_cluster.programs`: of a clone, or of the installed package."""
SEARCHED = (
    "components",  # the folder of a clone
    "venv/bin",  # the virtual environment that Pulumi makes for a program in Python
    ".venv/bin",
    "${VIRTUAL_ENV:-.venv}/bin",
    "$PATH",
    "${PULUMI_HOME:-$HOME/.pulumi}/gpu-cluster",  # made by `gpu_cluster.package.serving.place`
)
"""Places in which a Command searches the script, the first first; relative to Pulumi.yaml."""
DIGITS = 16
"""Hexadecimal digits kept of a finding's digest, enough to avoid collisions on one host."""


def command_line(program: str, action: str) -> str:
    """Return the shell line that runs a program of `gpu_cluster.programs`.

    The state stores the line, so it is the same in a clone, with the installed package and in a
    program of another language, and it contains no path of the engineer's machine. The engine
    gives a Command its own PATH, without the program's virtual environment.
    """
    return f'PATH="{":".join(SEARCHED)}" {PROGRAM} {program} {action}'


def run_program(
    name: str,
    program: str,
    action: str,
    request: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
    *,
    findings: Sequence[Finding] = (),
    update: str | None = None,
    delete: str | None = None,
    environment: Mapping[str, str] | None = None,
    ignored: Sequence[str] | None = None,
    create: str | None = None,
    has_previous_output: bool = False,
) -> local.Command:
    """Declare the local Command that runs a program of `gpu_cluster.programs` with a request.

    The program prints its result on standard output, which is an output of the Command, and its
    progress on standard error, which is all that the engine shows.

    Args:
        name: Name of the resource.
        program: Name of the program.
        action: The program's action for a new resource and for changed inputs.
        request: Text for the program's standard input.
        findings: Findings of the inspection that make the engine run the program again.
        update: Action for changed inputs, if it isn't `action`.
        delete: Action for a deleted resource.
        environment: Variables instead of those that `findings` give.
        ignored: Inputs whose changes don't run the program, instead of those that `findings` give.
        create: Shell line for a new resource, if it runs no program.
        has_previous_output: True if the program reads what it printed at its last run.
    """
    told_environment, told_ignored = repair(findings)
    return local.Command(
        name,
        create=create or command_line(program, action),
        update=command_line(program, update or action),
        delete=command_line(program, delete) if delete else None,
        environment=told_environment if environment is None else environment,
        logging=local.Logging.STDERR,
        stdin=request,
        add_previous_output_in_env=has_previous_output,
        opts=pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(
                ignore_changes=list(told_ignored if ignored is None else ignored)
            ),
        ),
    )


def repair(findings: Sequence[Finding]) -> tuple[dict[str, str], list[str]]:
    """Return the `environment` of a local Command, and the inputs whose changes the engine ignores.

    The findings are an input of the Command, so the preview shows them and the engine runs the
    update. Without findings the engine ignores the environment, so that the run after a repair does
    not update the Command again. The findings never become part of the command line: they contain
    untrusted names, and a shell parses the command line.
    """
    if not findings:
        return {}, ["environment"]
    return {FINDING: told(findings)}, []


def repair_line(
    line: str, findings: Sequence[Finding], kept: Sequence[str] = ()
) -> tuple[str, list[str]]:
    """Return the value of `update` of a remote Command, and the inputs whose changes don't count.

    If the inspection found drift, the line must differ from the one in the state, so that the
    engine runs it again. Therefore it ends with a shell comment that holds a digest of the
    findings; no text that a host reported stands in it. Local Commands get the findings in an
    environment variable instead (see `repair`); sshd would refuse that variable (sshd_config(5),
    AcceptEnv).

    Args:
        line: Shell line without the comment.
        findings: What the inspection found on this host.
        kept: Inputs whose changes don't count while there are no findings.
    """
    if not findings:
        return line, ["update", *kept]
    digest = hashlib.sha256(told(findings).encode(errors="surrogatepass")).hexdigest()[:DIGITS]
    return f"{line} # finding {digest}", []


def with_kubeconfig(kubeconfig: pulumi.Input[str]) -> pulumi.ResourceTransformation:
    """Return a transformation that passes a kubeconfig to the program of each local Command.

    A transformation covers every Command, also future ones, so none uses the cluster of the
    engineer's own kubeconfig by mistake.

    Args:
        kubeconfig: Contents of the kubeconfig, which become a secret.
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
    """Return a Command's standard output, parsed as JSON.

    A secret among the inputs makes all outputs of a Command secret. This project's programs print
    no secrets, so the result is not marked as secret.
    """
    return pulumi.Output.unsecret(result).apply(lambda text: dict(json.loads(text)) if text else {})
