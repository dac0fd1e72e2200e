"""Runs a kernel on each declared GPU: N of N of each node, shown by UUID.

Owns a namespace, a PriorityClass and one Command per pool, under `dra` a claim template, too. The
pods are the program's (`components.validation.validate`): one per node that is new or has changed,
gone when they have passed. What they proved is on the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_command as command

from components.manifest import Manifest
from components.namespace import LABELS, namespace
from components.nodes.pools import validated_pools
from components.nodes.settings.pool import Pool, gpu_pools
from components.operation import command_line, document, parsed, repair
from components.platforms.pull_secret import pull_secret
from components.platforms.registry import named
from components.platforms.tolerations import tolerations
from components.settings.cluster import Cluster
from components.validation import asked
from components.validation.document import claim_of, measure_document, validation_document
from components.validation.pod import template

PRIORITY = -1000
"""Below cluster-autoscaler's cutoff of -10 (its flag expendable-pods-priority-cutoff): our pods
neither add nodes nor keep any."""


@dataclass(frozen=True, kw_only=True)
class ValidationArgs:
    """What `Validation` needs.

    Attributes:
        cluster: the configuration.
        stack: name of the stack.
        runtime_class: RuntimeClass of pods that use GPUs; None where nvidia is the default.
        registry_credentials: a Docker configuration in JSON, a secret; None: none is given.
        drift: which nodes must be validated and why, by pool.
        private_key: an SSH private key, a secret, that logs in to the hosts; read for the lines
            that the driver wrote into their kernel's log.
    """

    cluster: Cluster
    stack: str
    runtime_class: str | None
    registry_credentials: pulumi.Input[str] | None = None
    drift: Mapping[str, str] = field(default_factory=dict)
    private_key: pulumi.Input[str] | None = None


def priority_class(cluster: Cluster) -> dict[str, Any]:
    """The PriorityClass of validation pods: they preempt nobody, and anybody preempts them."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": cluster.validation.namespace, "labels": LABELS},
        "value": PRIORITY,
        "preemptionPolicy": "Never",
        "description": "Pods that validate GPUs: any other pod comes first.",
    }


def _claim(cluster: Cluster) -> dict[str, Any] | None:
    """What each container claims; None where it asks for a resource."""
    space = cluster.validation.namespace
    return named(cluster.platform).claim(space, space, 1)


def pods(cluster: Cluster, pool: Pool, runtime_class: str | None) -> dict[str, Any]:
    """What a pool's validation pods have in common."""
    claim = _claim(cluster)
    return template(
        image=cluster.registry.deployed(cluster.validation.image),
        command=cluster.validation.command,
        tolerations=tolerations((pool,), cluster.scheduling.node_taints),
        runtime_class=None if claim else runtime_class,
        pull_secret=cluster.registry.pull_secret or None,
        annotations=dict(cluster.validation.pod_annotations),
        priority_class=cluster.validation.namespace,
        claim_template=claim["metadata"]["name"] if claim else None,
    )


def _with_key(content: dict[str, Any], key: pulumi.Input[str] | None) -> pulumi.Input[str]:
    """A Command's input with the hosts' key where there are hosts.

    Never by the environment: every child inherits that, and the same user's processes read it.
    """
    if key is None or "hosts" not in content:
        return document(content)
    secret = pulumi.Output.secret(key)
    return secret.apply(lambda text: document({**content, "privateKey": text}))


class Validation(pulumi.ComponentResource):
    """The kernels, by one Command per pool with GPUs."""

    TYPE = "gpucluster:index:Validation"

    nodes: pulumi.Output[list[dict[str, Any]]]
    """One entry per node, as `components.validation.outcome.of_node` gives it, with ``pool``."""
    tests: pulumi.Output[list[dict[str, Any]]]
    """What tests of one's own measured, the slowest first (`components.validation.trial`)."""

    def __init__(
        self, name: str, args: ValidationArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        cluster = args.cluster
        needed = self._needed(name, args)
        results: list[pulumi.Output[list[dict[str, Any]]]] = []
        commands: list[pulumi.Resource] = []
        pool_of = {
            node: pool.name for pool in gpu_pools(cluster.pools) for node in pool.node_names()
        }
        for pool in validated_pools(cluster):
            line = command_line("validation", "validate")
            content = {
                **validation_document(cluster, pool, args.stack),
                "pod": pods(cluster, pool, args.runtime_class),
            }
            environment, ignored = repair(args.drift.get(pool.name))
            ran = command.local.Command(
                f"{name}-{pool.name}",
                create=line,
                update=line,
                delete=command_line("validation", "forget"),
                environment=environment,
                # What it waits for is shown as it waits; its result is in the outputs.
                logging=command.local.Logging.STDERR,
                stdin=_with_key(content, args.private_key),
                add_previous_output_in_env=False,
                opts=pulumi.ResourceOptions(parent=self, depends_on=needed, ignore_changes=ignored),
            )
            commands.append(ran)
            results.append(
                # The key among its inputs makes all of its outputs secret; it prints nothing of it.
                parsed(pulumi.Output.unsecret(ran.stdout)).apply(
                    lambda result: [
                        # A node with GPUs left out is validated in a part of its pool.
                        {**node, "pool": pool_of.get(node["name"], result["pool"])}
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
        """One Command for all tests of one's own, after the kernels; none where there is none."""
        cluster = args.cluster
        if not cluster.validation.tests:
            return pulumi.Output.from_input([])
        child = pulumi.ResourceOptions(parent=self, depends_on=needed)
        claims = [
            Manifest(f"{name}-test-{gpus}-claim", claim, child)
            for gpus in sorted({test.gpus for test in cluster.validation.tests.values()})
            if (claim := claim_of(cluster, gpus))
        ]
        line = command_line("tests", "measure")
        environment, ignored = repair(asked.finding())
        ran = command.local.Command(
            f"{name}.tests",  # no pool's name has a dot
            create=line,
            update=line,
            environment=environment,
            logging=command.local.Logging.STDERR,
            stdin=document(measure_document(cluster, args.stack, args.runtime_class)),
            # What was measured before stays until it is measured anew.
            add_previous_output_in_env=True,
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=[*needed, *claims], ignore_changes=ignored
            ),
        )
        return parsed(ran.stdout).apply(lambda result: list(result.get("tests", [])))

    def _needed(self, name: str, args: ValidationArgs) -> list[pulumi.Resource]:
        """What the pods need: their namespace, priority, pull secret, claim template."""
        cluster = args.cluster
        context, space = cluster.kubernetes.context, cluster.validation.namespace
        made = namespace(self, f"{name}-namespace", context, space, security="baseline")
        child = pulumi.ResourceOptions(parent=self, depends_on=[made])
        needed = [made, Manifest(f"{name}-priority", priority_class(cluster), child)]
        if claim := _claim(cluster):
            needed.append(Manifest(f"{name}-claim", claim, child))
        secrets = pull_secret(self, name, cluster.registry, args.registry_credentials, made, space)
        return [*needed, *secrets]
