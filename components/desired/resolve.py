"""Turn the declaration into the desired state.

The only place that reads the whole declaration: it builds the platform, and lays a stack's, a
pool's and a host's values over each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from components.desired.host import DesiredHost, Upgrade
from components.desired.kubeadm_cluster import KubeadmCluster
from components.desired.rollout import DesiredRollout
from components.hosts.settings.host import Host
from components.hosts.settings.reboot import RebootWhen
from components.nodes.settings.taint import Effect
from components.platforms.base import Delivery
from components.platforms.registry import platform_of
from components.settings.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class Desired:
    """What a stack should be.

    Attributes:
        stack: name of the stack.
        context: context of the kubeconfig.
        hosts: all hosts, in the order of the stack file.
        kubeadm: the cluster that the stack makes; None: the cluster exists without the stack.
        rollout: how nodes are taken out of use.
    """

    stack: str
    context: str
    hosts: tuple[DesiredHost, ...]
    kubeadm: KubeadmCluster | None
    rollout: DesiredRollout


def resolve(cluster: Cluster, stack: str) -> Desired:
    """Return the desired state of a stack.

    Args:
        cluster: the declaration, as `components.settings.loader.load` returns it.
        stack: name of the stack.
    """
    platform = platform_of(cluster)
    by_node = {node: pool for pool in cluster.pools for node in pool.node_names()}
    tainted = {
        node
        for pool in cluster.pools
        if any(taint.effect is not Effect.PREFER_NO_SCHEDULE for taint in pool.taints)
        for node in pool.node_names()
    }
    takes_a_job = any(host.node not in tainted for host in cluster.hosts)
    configures_runtime = not (
        platform.delivery is Delivery.PLUGIN or platform.configures_runtime(cluster)
    )
    init = cluster.kubernetes_packages.init
    first = next((host for host in cluster.hosts if host.role.is_control_plane), None)
    first = first if init is not None else None

    def resolved(host: Host) -> DesiredHost:
        pool = by_node.get(host.node)
        joins = cluster.kubernetes_packages.join is not None and not host.role.is_control_plane
        follows = first is not None or joins
        upgrade = Upgrade.APPLY if host == first else Upgrade.NODE if follows else Upgrade.NONE
        left_out = pool.unhealthy_devices.get(host.node) if pool else None
        return DesiredHost(
            name=host.name,
            node=host.node,
            role=host.role,
            address=host.address,
            port=host.port,
            user=host.user,
            host_key=host.host_key,
            bastion=host.bastion,
            ssh=cluster.ssh,
            system=host.system or cluster.system,
            kernel=host.kernel or cluster.kernel,
            packages=cluster.packages,
            driver=host.driver or cluster.driver,
            cuda=host.cuda or cluster.cuda,
            kubernetes_packages=cluster.kubernetes_packages,
            runtime=host.runtime or cluster.runtime,
            proxy=cluster.proxy,
            reboot=cluster.reboot,
            in_maintenance=cluster.in_maintenance(host),
            joins=joins,
            upgrade=upgrade,
            takes_a_job=takes_a_job,
            excluded_gpus=tuple(sorted(left_out.uuid)) if left_out else (),
            pool=pool.name if pool else "",
            gpus=pool.on_the_bus(host.node) if pool else None,
            configures_runtime=host.role.has_gpus and configures_runtime,
            uses_toolkit=platform.delivery is Delivery.RUNTIME and configures_runtime,
            takes_cgroup_v1=platform.wants_cgroup_v1,
            validation_image=cluster.validation.image,
        )

    hosts = tuple(map(resolved, cluster.hosts))
    kubeadm = None
    if init is not None and first is not None:
        kubeadm = KubeadmCluster(
            first=next(host for host in hosts if host.name == first.name),
            joining=tuple(host for host in hosts if host.name != first.name),
            init=init,
            context=cluster.kubernetes.context,
            identifier=cluster.kubernetes.identifier,
            charts=cluster.charts,
        )
    rollout = DesiredRollout(
        context=cluster.kubernetes.context,
        makes_cluster=kubeadm is not None,
        max_unavailable=cluster.rollout.max_unavailable,
        drain_timeout_seconds=cluster.rollout.drain_timeout_seconds,
        consent=tuple(sorted(cluster.rollout.evict)),
        boots=cluster.reboot.when is RebootWhen.REQUIRED,
        boot_timeout_seconds=cluster.reboot.timeout_seconds,
    )
    return Desired(
        stack=stack,
        context=cluster.kubernetes.context,
        hosts=hosts,
        kubeadm=kubeadm,
        rollout=rollout,
    )
