"""Component that runs a CUDA kernel on each declared GPU and reports the UUIDs of the GPUs.

The component owns a namespace, a PriorityClass, a Command and, with `dra`, a
ResourceClaimTemplate. The program `gpu_cluster.validation.validation` creates the pods: one for
each node that is new or has changed; they are deleted when they have passed. The results are
recorded on the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import pulumi

from gpu_cluster.desired.validation import DesiredValidation, PoolsValidation, PoolValidation
from gpu_cluster.findings import Aspect, Finding, Findings, Kind, Subject
from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.manifest import Manifest
from gpu_cluster.operation import parsed, run_program
from gpu_cluster.release.namespace import NamespaceArgs, own_namespace
from gpu_cluster.requests import write
from gpu_cluster.validation import selection

PRIORITY = -1000
"""Priority of validation pods, below cluster-autoscaler's cutoff of -10.

With such a priority (flag expendable-pods-priority-cutoff) the pods neither add nodes nor keep
nodes from being removed.
"""


@dataclass(frozen=True, kw_only=True)
class ValidationArgs:
    """Arguments of the component `Validation`.

    Attributes:
        validation: Settings of the validation.
        registry_credentials: Docker configuration in JSON, a secret. None: no credentials.
        findings: Which nodes must be validated and why, by pool.
        private_key: SSH private key of the hosts, a secret, used to read the driver's lines in the
            kernel log.
    """

    validation: DesiredValidation
    registry_credentials: pulumi.Input[str] | None = None
    findings: Mapping[str, Findings] = field(default_factory=dict)
    private_key: pulumi.Input[str] | None = None


def priority_class(name: str) -> dict[str, Any]:
    """Return the PriorityClass of validation pods: any pod preempts them, they preempt none."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "labels": LABELS},
        "value": PRIORITY,
        "preemptionPolicy": "Never",
        "description": "Pods that validate GPUs: any other pod comes first.",
    }


def _with_key(
    pools: tuple[PoolValidation, ...], key: pulumi.Input[str] | None
) -> pulumi.Input[str]:
    """Return the Command's input, with the hosts' SSH key if a pool has hosts.

    The key is never passed in the environment: child processes inherit the environment, and other
    processes of the same user can read it.
    """
    request = PoolsValidation(context=pools[0].context, pools=pools)
    if key is None or not any(pool.hosts for pool in pools):
        return write(request)
    return pulumi.Output.secret(key).apply(lambda text: write(replace(request, private_key=text)))


class Validation(pulumi.ComponentResource):
    """Pulumi component that validates all pools with GPUs by one Command."""

    TYPE = "gpucluster:index:Validation"

    nodes: pulumi.Output[list[dict[str, Any]]]
    """Result of each node (`node_result.of_node`), with the key `pool` for its pool."""
    tests: pulumi.Output[list[dict[str, Any]]]
    """Measurements of user-defined tests, slowest first (`gpu_cluster.validation.measurement`)."""

    def __init__(
        self, name: str, args: ValidationArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Declare the objects that validation pods need, and the Commands."""
        super().__init__(self.TYPE, name, None, opts)
        validation = args.validation
        needed = self._needed(name, args)
        nothing: list[dict[str, Any]] = []
        self.nodes = pulumi.Output.from_input(nothing)
        commands: list[pulumi.Resource] = []
        if validation.pools:
            ran = run_program(
                # The dot keeps this name different from those of earlier versions, which had a
                # Command per pool.
                f"{name}.pools",
                "validation",
                "validate",
                _with_key(validation.pools, args.private_key),
                pulumi.ResourceOptions(parent=self, depends_on=needed),
                findings=tuple(chain.from_iterable(args.findings.values())),
                delete="forget",
            )
            commands.append(ran)
            self.nodes = parsed(ran.stdout).apply(
                lambda result: [
                    # Nodes with excluded GPUs are validated as a pool of their own. The output
                    # names the pool of the stack file.
                    {**node, "pool": validation.pool_of.get(node["name"], node["pool"])}
                    for node in result.get("nodes", [])
                ]
            )
        self.tests = self._tests(name, args, [*needed, *commands])
        self.register_outputs({"nodes": self.nodes, "tests": self.tests})

    def _tests(
        self, name: str, args: ValidationArgs, needed: list[pulumi.Resource]
    ) -> pulumi.Output[list[dict[str, Any]]]:
        """Declare one Command for all user-defined tests; no Command if there are no tests."""
        measuring = args.validation.measuring
        if not measuring.tests:
            return pulumi.Output.from_input([])
        child = pulumi.ResourceOptions(parent=self, depends_on=needed)
        claims = [
            Manifest(f"{name}-test-{gpus}-claim", claim, child)
            for gpus, claim in args.validation.test_claims.items()
        ]
        ran = run_program(
            f"{name}.tests",  # The dot keeps this name different from those of the pools' Commands.
            "tests",
            "measure",
            write(measuring),
            pulumi.ResourceOptions(parent=self, depends_on=[*needed, *claims]),
            findings=_asked_tests(),
            # Earlier measurements are kept until a test is run again.
            has_previous_output=True,
        )
        return parsed(ran.stdout).apply(lambda result: list(result.get("tests", [])))

    def _needed(self, name: str, args: ValidationArgs) -> list[pulumi.Resource]:
        """Declare the objects that validation pods need, and return them.

        The objects are the namespace, the PriorityClass, the pull secret and the
        ResourceClaimTemplate.
        """
        validation = args.validation
        space = validation.namespace
        namespace_args = NamespaceArgs(
            context=validation.context,
            namespace=space,
            security="baseline",
            pull_secret=validation.registry.pull_secret,
            credentials=args.registry_credentials,
        )
        needed = own_namespace(self, name, namespace_args)
        child = pulumi.ResourceOptions(parent=self, depends_on=[*needed])
        needed.append(Manifest(f"{name}-priority", priority_class(space), child))
        if validation.claim:
            needed.append(Manifest(f"{name}-claim", validation.claim, child))
        return needed


def _asked_tests() -> Findings:
    """Return a finding for each user-defined test that the environment requests."""
    return tuple(
        Finding(
            kind=Kind.DUE,
            subject=Subject.OBJECT,
            name=f"test {name}",
            aspect=Aspect.REASON,
            key="asked for",
        )
        for name in selection.tests()
    )
