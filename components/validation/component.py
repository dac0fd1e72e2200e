"""Runs a kernel on each declared GPU: N of N of each node, shown by UUID.

Owns a namespace, a PriorityClass and one Command per pool, under `dra` a claim template, too. The
pods are the program's (`components.validation.validation`): one per node that is new or has
changed, gone when they have passed. What they proved is on the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pulumi
import pulumi_command as command

from components.desired.validation import DesiredValidation, PoolValidation
from components.findings import Finding, Findings, Kind, Subject
from components.kubernetes.labels import LABELS
from components.manifest import Manifest
from components.operation import command_line, parsed, repair
from components.release.namespace import NamespaceArgs, own_namespace
from components.requests import write
from components.validation import selection

PRIORITY = -1000
"""Below cluster-autoscaler's cutoff of -10 (its flag expendable-pods-priority-cutoff): our pods
neither add nodes nor keep any."""


@dataclass(frozen=True, kw_only=True)
class ValidationArgs:
    """What `Validation` needs.

    Attributes:
        validation: what is validated, and how.
        registry_credentials: a Docker configuration in JSON, a secret; None: none is given.
        findings: which nodes must be validated and why, by pool.
        private_key: an SSH private key, a secret, that logs in to the hosts; read for the lines
            that the driver wrote into their kernel's log.
    """

    validation: DesiredValidation
    registry_credentials: pulumi.Input[str] | None = None
    findings: Mapping[str, Findings] = field(default_factory=dict)
    private_key: pulumi.Input[str] | None = None


def priority_class(name: str) -> dict[str, Any]:
    """Return the PriorityClass of validation pods: anybody preempts them, they preempt nobody."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "labels": LABELS},
        "value": PRIORITY,
        "preemptionPolicy": "Never",
        "description": "Pods that validate GPUs: any other pod comes first.",
    }


def _with_key(pool: PoolValidation, key: pulumi.Input[str] | None) -> pulumi.Input[str]:
    """Return a Command's input, with the hosts' key if there are hosts.

    Never by the environment: every child inherits that, and the same user's processes read it.
    """
    if key is None or not pool.hosts:
        return write(pool)
    return pulumi.Output.secret(key).apply(lambda text: write(replace(pool, private_key=text)))


class Validation(pulumi.ComponentResource):
    """The kernels, by one Command per pool with GPUs."""

    TYPE = "gpucluster:index:Validation"

    nodes: pulumi.Output[list[dict[str, Any]]]
    """One entry per node (`node_result.of_node`), with ``pool``."""
    tests: pulumi.Output[list[dict[str, Any]]]
    """What user-defined tests measured, the slowest first (`components.validation.measurement`)."""

    def __init__(
        self, name: str, args: ValidationArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        validation = args.validation
        needed = self._needed(name, args)
        results: list[pulumi.Output[list[dict[str, Any]]]] = []
        commands: list[pulumi.Resource] = []
        for pool in validation.pools:
            line = command_line("validation", "validate")
            environment, ignored = repair(args.findings.get(pool.pool, ()))
            ran = command.local.Command(
                f"{name}-{pool.pool}",
                create=line,
                update=line,
                delete=command_line("validation", "forget"),
                environment=environment,
                # What it waits for is shown as it waits; its result is in the outputs.
                logging=command.local.Logging.STDERR,
                stdin=_with_key(pool, args.private_key),
                add_previous_output_in_env=False,
                opts=pulumi.ResourceOptions(parent=self, depends_on=needed, ignore_changes=ignored),
            )
            commands.append(ran)
            results.append(
                parsed(ran.stdout).apply(
                    lambda result: [
                        # A node with GPUs left out is validated in a part of its pool.
                        {**node, "pool": validation.pool_of.get(node["name"], result["pool"])}
                        for node in result.get("nodes", [])
                    ]
                )
            )
        self.nodes = pulumi.Output.all(*results).apply(
            lambda pools: [node for nodes in pools for node in nodes]
        )
        self.tests = self._tests(name, args, [*needed, *commands])
        self.register_outputs({"nodes": self.nodes, "tests": self.tests})

    def _tests(
        self, name: str, args: ValidationArgs, needed: list[pulumi.Resource]
    ) -> pulumi.Output[list[dict[str, Any]]]:
        """One Command for all user-defined tests, after the kernels; none where there is none."""
        measuring = args.validation.measuring
        if not measuring.tests:
            return pulumi.Output.from_input([])
        child = pulumi.ResourceOptions(parent=self, depends_on=needed)
        claims = [
            Manifest(f"{name}-test-{gpus}-claim", claim, child)
            for gpus, claim in args.validation.test_claims.items()
        ]
        line = command_line("tests", "measure")
        environment, ignored = repair(_asked_tests())
        ran = command.local.Command(
            f"{name}.tests",  # no pool's name has a dot
            create=line,
            update=line,
            environment=environment,
            logging=command.local.Logging.STDERR,
            stdin=write(measuring),
            # What was measured before stays until it is measured anew.
            add_previous_output_in_env=True,
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=[*needed, *claims], ignore_changes=ignored
            ),
        )
        return parsed(ran.stdout).apply(lambda result: list(result.get("tests", [])))

    def _needed(self, name: str, args: ValidationArgs) -> list[pulumi.Resource]:
        """What the pods need: their namespace, priority, pull secret, claim template."""
        validation = args.validation
        space = validation.namespace
        given = NamespaceArgs(
            context=validation.context,
            namespace=space,
            security="baseline",
            pull_secret=validation.registry.pull_secret,
            credentials=args.registry_credentials,
        )
        needed = own_namespace(self, name, given)
        child = pulumi.ResourceOptions(parent=self, depends_on=[*needed])
        needed.append(Manifest(f"{name}-priority", priority_class(space), child))
        if validation.claim:
            needed.append(Manifest(f"{name}-claim", validation.claim, child))
        return needed


def _asked_tests() -> Findings:
    """Return the tests that are asked for; none where none is."""
    return tuple(
        Finding(kind=Kind.DUE, subject=Subject.OBJECT, name=f"test {name}", what="asked for")
        for name in selection.tests()
    )
