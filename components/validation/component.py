"""Counts what was built: N of N declared GPUs on each node, and a kernel that ran on them.

Owns a namespace, one Indexed Job and one count per pool. The Job's pods each ask for all GPUs of
one node; the program ``validation`` ties pod *i* to node *i*, reads every log and removes the
finished pods. A Job that no longer stands for what is there (a new chart version, a node whose GPUs
went) is replaced, and the count runs again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_command as command

from components.hooks import clearing
from components.manifest import Manifest
from components.namespace import namespace
from components.nodes.pools import (
    SLACK,
    gpu_pools,
    job_name,
    node_taints,
    tolerations,
    validated_pools,
    validation_document,
)
from components.nodes.settings.pool import Pool
from components.operation import command_line, document, parsed
from components.platforms.pull_secret import pull_secret
from components.platforms.registry import platform_of
from components.settings.cluster import Cluster
from config.printable import printable

GATE = "gpu-cluster/pin"
POOL = "gpu-cluster/validation"
VALIDATES = "gpu-cluster/validates"
DRIFT = "gpu-cluster/drift"
#: Name of a validation pod's claim, under `dra`.
CLAIM = "gpus"


@dataclass(frozen=True, kw_only=True)
class ValidationArgs:
    """What `Validation` needs.

    Attributes:
        cluster: the configuration.
        stack: name of the stack.
        runtime_class: RuntimeClass of pods that use GPUs; None where nvidia is the default.
        registry_credentials: a Docker configuration in JSON, a secret; None: none is given.
        drift: what the look at the cluster found to differ, by pool.
    """

    cluster: Cluster
    stack: str
    runtime_class: str | None
    registry_credentials: pulumi.Input[str] | None = None
    drift: Mapping[str, str] = field(default_factory=dict)


def resources(cluster: Cluster, pool: Pool) -> dict[str, Any]:
    """What a validation pod asks for: all GPUs of one node, in the platform's own words.

    Whole cards of gpu-manager need no memory beside them (tkestack/gpu-manager 8cd842e,
    pkg/services/allocator/nvidia/allocator.go).
    """
    if _claim(cluster, pool):
        return {"claims": [{"name": CLAIM}]}
    offers = platform_of(cluster).offers(cluster, pool)
    return {"limits": {offer.resource: str(offer.ask) for offer in offers}}


def _claim(cluster: Cluster, pool: Pool) -> dict[str, Any] | None:
    """What a pool's validation pods claim; None where they ask for resources."""
    space = cluster.validation.namespace
    return platform_of(cluster).claim(job_name(pool), space, pool.gpus_per_node)


def job_spec(cluster: Cluster, pool: Pool, runtime_class: str | None) -> dict[str, Any]:
    """A pool's validation Job: one pod a node, none of which a failure of another ends.

    ``backoffLimitPerIndex`` is stable since Kubernetes 1.33, on by default since 1.29.
    """
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "schedulingGates": [{"name": GATE}],
        "tolerations": tolerations((pool,), node_taints(cluster)),
        "containers": [
            {
                "name": "vectoradd",
                "image": cluster.registry.rewritten(cluster.validation.image),
                "resources": resources(cluster, pool),
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
            }
        ],
    }
    if cluster.registry.pull_secret:
        pod["imagePullSecrets"] = [{"name": cluster.registry.pull_secret}]
    if _claim(cluster, pool):
        template = {"name": CLAIM, "resourceClaimTemplateName": job_name(pool)}
        pod["resourceClaims"] = [template]
    elif runtime_class:
        pod["runtimeClassName"] = runtime_class
    return {
        "completionMode": "Indexed",
        "completions": pool.size,
        "parallelism": pool.size,
        "backoffLimitPerIndex": 0,
        "maxFailedIndexes": pool.size,
        "activeDeadlineSeconds": cluster.validation.timeout_seconds + SLACK,
        "template": {"metadata": {"labels": {POOL: pool.name}}, "spec": pod},
    }


def fingerprint(cluster: Cluster, pool: Pool) -> str:
    """What a Job stands for: with any of this changed, its result says nothing any more."""
    parts = [
        pool.gpus_per_node,
        pool.model_dump(mode="json", include={"mig"}),
        cluster.registry.model_dump(mode="json"),
        cluster.validation.image,
        cluster.driver.model_dump(mode="json"),
        cluster.runtime.model_dump(mode="json"),
        cluster.platform,
        cluster.device_plugin.model_dump(mode="json") if cluster.device_plugin else None,
        cluster.gpu_operator.model_dump(mode="json") if cluster.gpu_operator else None,
        cluster.gpu_manager.model_dump(mode="json"),
        cluster.dra.model_dump(mode="json", include={"version", "namespace"}),
        cluster.driver_installer.model_dump(mode="json"),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def uid(metadata: dict[str, Any]) -> str:
    """An object's uid; empty in the preview of its creation."""
    return str(metadata.get("uid", ""))


class Validation(pulumi.ComponentResource):
    """The count, one per pool with GPUs."""

    TYPE = "gpucluster:index:Validation"

    nodes: pulumi.Output[list[dict[str, Any]]]
    """One entry per node: ``name``, ``pool``, ``declared``, ``validated``, ``simulated``."""

    def __init__(
        self, name: str, args: ValidationArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        cluster = args.cluster
        context, space_name = cluster.kubernetes.context, cluster.validation.namespace
        space = namespace(self, f"{name}-namespace", context, space_name, security="baseline")
        secrets = pull_secret(
            self,
            name,
            cluster,
            args.registry_credentials,
            space,
            space_name,
        )
        counts: list[pulumi.Output[list[dict[str, Any]]]] = []
        declared_in = {node: pool.name for pool in gpu_pools(cluster) for node in pool.node_names()}
        for pool in validated_pools(cluster):
            drift = args.drift.get(pool.name)
            needed: list[pulumi.Resource] = [space]
            if claim := _claim(cluster, pool):
                options = pulumi.ResourceOptions(parent=self, depends_on=[space])
                needed.append(Manifest(f"{name}-{pool.name}-claim", claim, options))
            path = f'spec.template.metadata.annotations["{DRIFT}"]'
            spec = job_spec(cluster, pool, args.runtime_class)
            spec["template"]["metadata"]["annotations"] = {
                VALIDATES: fingerprint(cluster, pool),
                DRIFT: printable(drift or "none"),
            }
            job = Manifest(
                f"{name}-{pool.name}-job",
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "metadata": {
                        "name": job_name(pool),
                        "namespace": cluster.validation.namespace,
                        "labels": {"app.kubernetes.io/managed-by": "gpu-cluster"},
                        # The count waits, and says which node falls short.
                        "annotations": {"pulumi.com/skipAwait": "true"},
                    },
                    "spec": spec,
                },
                pulumi.ResourceOptions(
                    parent=self,
                    depends_on=[*needed, *secrets],
                    delete_before_replace=True,
                    ignore_changes=[] if drift else [path],
                    hooks=clearing("job", context, f"{name}-{pool.name}"),
                ),
            )
            line = command_line("validation", "count")
            content = validation_document(cluster, pool, args.stack)
            count = command.local.Command(
                f"{name}-{pool.name}-count",
                create=line,
                update=line,
                # The Job's uid makes a new Job count again.
                environment={"GPU_CLUSTER_JOB_UID": job.metadata.apply(uid)},
                stdin=document(content),
                add_previous_output_in_env=False,
                opts=pulumi.ResourceOptions(parent=self),
            )
            counts.append(
                parsed(count.stdout).apply(
                    lambda result: [
                        # A node with GPUs left out is counted in a part of its pool.
                        {**node, "pool": declared_in.get(node["name"], result["pool"])}
                        for node in result.get("nodes", [])
                    ]
                )
            )
        self.nodes = pulumi.Output.all(*counts).apply(
            lambda pools: [node for nodes in pools for node in nodes]
        )
        self.register_outputs({"nodes": self.nodes})
