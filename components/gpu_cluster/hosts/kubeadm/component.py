"""Component that creates a cluster: `kubeadm init`, the network add-on, `kubeadm join`.

The component owns the cluster's etcd. Destroying the component loses the etcd data, so the engine
refuses that until `kubernetesPackages.init.protect` is false. It also owns one context in this
machine's kubeconfig. Further control planes join one after the other, so that etcd never adds two
members at a time, and leave in the reverse order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pulumi
import pulumi_command as command
import pulumi_kubernetes as k8s
import yaml
from pulumi_command import local

from gpu_cluster.base.nesting import LOADER, bound_depth
from gpu_cluster.charts.extra_values import plain
from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.desired.kubeadm_cluster import DesiredKubeadmCluster
from gpu_cluster.findings import Aspect, Finding, Findings, Kind, Subject
from gpu_cluster.hosts.command import HostsArgs, answer, host_commands
from gpu_cluster.hosts.kubeadm.access import ACCESS, Access, Administrator
from gpu_cluster.hosts.kubeadm.kubeconfig import KubeconfigRequest
from gpu_cluster.hosts.kubeadm.lending import Lending
from gpu_cluster.hosts.kubeadm.scripts import (
    JOINING,
    access_script,
    init_script,
    join_script,
    member_script,
    member_seconds,
)
from gpu_cluster.hosts.script import Declaration
from gpu_cluster.manifest import Manifest
from gpu_cluster.operation import run_program
from gpu_cluster.provider import kubernetes_provider
from gpu_cluster.requests import write
from gpu_cluster.settings.chart_source import ChartSource


@dataclass(frozen=True, kw_only=True)
class KubeadmClusterArgs:
    """Arguments of the component `KubeadmCluster`.

    Attributes:
        cluster: The cluster to create.
        hosts: Access to the hosts; its field `after` has the preceding command of each host.
        there: Whether the kubeconfig of the machine that runs Pulumi has the cluster's context.
    """

    cluster: DesiredKubeadmCluster
    hosts: HostsArgs
    there: bool = True


class KubeadmCluster(pulumi.ComponentResource):
    """A cluster created with kubeadm: first the control plane, then network add-on and nodes."""

    TYPE = "gpucluster:index:KubeadmCluster"

    provider: pulumi.ProviderResource
    kubeconfig: pulumi.Output[str]
    token: pulumi.Output[str]
    nodes: Mapping[str, pulumi.Resource]

    def __init__(
        self, name: str, args: KubeadmClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Declare control plane, kubeconfig context, network add-on and joining nodes."""
        super().__init__(self.TYPE, name, None, opts)
        cluster, hosts = args.cluster, args.hosts
        first, init = cluster.first, cluster.init
        nodes = [host.node for host in cluster.workers]
        lending = Lending(name, cluster, hosts.private_key)
        initialized = self._control_plane(
            name, first, hosts, init_script, lending, init.protect, []
        )
        access = host_commands(
            self, f"{name}-access", (first,),
            replace(hosts, after=initialized, findings=_waiting_hosts(cluster, hosts.findings)),
            lambda host: access_script(host, nodes), lambda _: 0,
            more=pulumi.ResourceOptions(additional_secret_outputs=["stdout"]),
        )  # fmt: skip
        cluster_access = answer(access[first.name], first.name, ACCESS, first.name, init.endpoint)
        context_name = cluster.context
        self.token = cluster_access.apply(lambda access_data: access_data.token)
        self.kubeconfig = cluster_access.apply(
            lambda access_data: kubeconfig(access_data.administrator, context_name)
        )
        context = self._context(name, cluster.context, cluster_access, args.there)
        self.provider = kubernetes_provider(
            f"{name}-kubernetes",
            context.stdout.apply(lambda _: context_name),
            cluster.identifier,
            pulumi.ResourceOptions(parent=self, depends_on=[context]),
        )
        network = self._network(f"{name}-network", cluster, initialized[first.name])

        def join(host: DesiredHost) -> pulumi.Output[str]:
            hosts.copies.want(host, JOINING)
            return cluster_access.apply(
                lambda access_data: join_script(host, access_data.token, access_data.hashes)
            )

        members: dict[str, pulumi.Resource] = {}
        for host in cluster.members:
            after = [*initialized.values(), *network, *members.values()]
            members |= self._control_plane(
                name, host, hosts, member_script, lending, init.protect, after
            )
        joined = host_commands(
            self, f"{name}-join", cluster.workers, hosts, join, member_seconds,
            more=pulumi.ResourceOptions(depends_on=[*network, *members.values()]),
            # A new join token, created for a new host, must not change the hosts that have joined.
            always_kept=["stdin"],
        )  # fmt: skip
        self.nodes = {**initialized, **members, **joined}
        self.register_outputs({})

    def _control_plane(
        self,
        name: str,
        host: DesiredHost,
        hosts: HostsArgs,
        script: Callable[[DesiredHost], Declaration],
        lending: Lending,
        protect: bool,
        after: Sequence[pulumi.Resource],
    ) -> dict[str, command.remote.Command]:
        """Declare a host's control plane.

        The name is the same whether the host is the first of the list or not, so that another
        order takes no member out of the cluster. A state that was made when
        there could be only one control plane has another name for it: without the alias, the next
        run would take that host out of its cluster.
        """
        options = pulumi.ResourceOptions(
            aliases=[pulumi.Alias(name=f"{name}-init-{host.name}")],
            protect=protect,
            depends_on=after,
            hooks=lending.around(host),
        )
        return host_commands(
            self, f"{name}-member", (host,), hosts, script, member_seconds, more=options
        )

    def _context(
        self, name: str, context: str, cluster_access: pulumi.Output[Access], is_present: bool
    ) -> local.Command:
        """Declare the cluster's context in the local kubeconfig; a missing context is rewritten."""
        gone = Finding(
            kind=Kind.DUE,
            subject=Subject.OBJECT,
            name=f"context {context}",
            aspect=Aspect.REASON,
            key="not on this machine",
            first=True,
        )

        def request(access: Access) -> str:
            return write(KubeconfigRequest(context=context, administrator=access.administrator))

        return run_program(
            f"{name}-kubeconfig",
            "kubeconfig",
            "apply",
            cluster_access.apply(request),
            pulumi.ResourceOptions(parent=self),
            findings=() if is_present else (gone,),
            delete="undo",
        )

    def _network(
        self, name: str, cluster: DesiredKubeadmCluster, control_plane: pulumi.Resource
    ) -> list[pulumi.Resource]:
        """Declare the network add-on.

        The add-on's resources are marked as deleted with the control plane, so that destroying the
        cluster does not delete them first.
        """
        network = cluster.init.network
        options = pulumi.ResourceOptions(
            parent=self, provider=self.provider, deleted_with=control_plane
        )
        if network.manifest is not None:
            declared: list[pulumi.Resource] = []
            for manifest in manifests(network.manifest):
                meta = manifest["metadata"]
                words = (name, manifest["kind"].lower(), meta.get("namespace", ""), meta["name"])
                declared.append(Manifest("-".join(filter(None, words)), manifest, options))
            return declared
        chart = network.chart
        if chart is None:
            return []
        source = ChartSource(cluster.charts, chart.chart, chart.repository, chart.version)
        return [
            k8s.helm.v3.Release(
                name,
                k8s.helm.v3.ReleaseArgs(
                    name=chart.chart,
                    namespace=chart.namespace,
                    values=plain(chart.values),
                    # The add-on's pods only start once nodes accept them, and nodes only become
                    # Ready with the add-on.
                    skip_await=True,
                    **source.arguments,
                ),
                # After a refused destroy, Pulumi would forget the release, and Helm rejects a name
                # that is in use.
                pulumi.ResourceOptions.merge(
                    options, pulumi.ResourceOptions(protect=cluster.init.protect)
                ),
            )
        ]


def _waiting_hosts(
    cluster: DesiredKubeadmCluster, findings: Mapping[str, Findings]
) -> dict[str, Findings]:
    """Return the findings because of which the first control plane prints its access data again.

    Workers that never joined need a new join token, and after its certificates were renewed, the
    control plane has another client certificate for the administrator.
    """
    joining_findings = (
        finding for host in cluster.workers for finding in findings.get(host.name, ())
    )
    due = (finding for finding in findings.get(cluster.first.name, ()) if finding.kind is Kind.DUE)
    waiting = (*(finding for finding in joining_findings if finding.first), *due)
    return {cluster.first.name: waiting} if waiting else {}


def manifests(path: str) -> list[dict[str, Any]]:
    """Return the Kubernetes objects in a YAML file of the project.

    Raises:
        RunError: The file can't be read, or a document in it is not a Kubernetes object.
    """
    place = f"kubernetesPackages.init.network.manifest {path}"
    try:
        text = Path(path).read_text()
        bound_depth(text)
        documents = list(filter(None, yaml.load_all(text, LOADER)))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise pulumi.RunError(
            f"{place}: found no manifests ({error}); wanted: a file of YAML in the project; "
            "cure: correct the path or the file"
        ) from None
    for document in documents:
        if not (
            isinstance(document, dict) and {"apiVersion", "kind", "metadata"} <= document.keys()
        ):
            raise pulumi.RunError(
                f"{place}: found a document that isn't an object; wanted: apiVersion, kind and "
                "metadata; cure: correct the file"
            )
    return documents


def kubeconfig(administrator: Administrator, context: str) -> str:
    """Return a complete kubeconfig with one context."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context, "cluster": administrator.cluster}],
        "users": [{"name": context, "user": administrator.user}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "current-context": context,
    }
    return yaml.safe_dump(document, sort_keys=False)
