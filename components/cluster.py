"""A GPU cluster from prepared hosts to counted GPUs, in the order in which a person does it.

Public: any program declares one or more `GpuCluster` (docs/decisions, 0003).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pulumi
import pulumi_command

from components.desired.resolve import resolve
from components.driver_daemonset.component import DriverInstaller, DriverInstallerArgs
from components.guardrails.component import Guardrails, GuardrailsArgs
from components.hosts.command import HostsArgs
from components.hosts.component import ContainerRuntime, HostPreparation
from components.hosts.copies import Copies
from components.hosts.credentials import refused
from components.hosts.kubeadm.component import KubeadmCluster, KubeadmClusterArgs
from components.hosts.reboot.component import Reboot, RebootArgs
from components.inspection.difference import Difference
from components.inspection.observe import inspect
from components.kubernetes.kubeconfig_contexts import given, missing_context
from components.loading.inventory import origins
from components.loading.loader import check, is_loaded, load
from components.loading.warnings import warnings
from components.monitoring.component import Monitoring, MonitoringArgs
from components.nodes.component import NodeScheduling, NodeSchedulingArgs
from components.operation import with_kubeconfig
from components.provider import kubernetes_provider
from components.release.component import GpuPlatform, PlatformArgs
from components.release.presence_component import presence
from components.rollout.component import Rollout, RolloutArgs
from components.rollout.mig_layouts_component import MigLayouts, MigLayoutsArgs
from components.settings.cluster import Cluster
from components.ssh.keys import shortest
from components.validation.component import Validation, ValidationArgs
from policies.faults import ConfigError, Fault
from policies.guard import judging

UNKNOWN = (
    "{}: its kubeconfig is known as soon as its cluster exists; until then the difference is "
    "unknown, and everything in the cluster is shown as if nothing of it were there"
)


@dataclass(frozen=True, kw_only=True)
class GpuClusterArgs:
    """What `GpuCluster` needs.

    Attributes:
        settings: what is declared: a document as `gpu-cluster:cluster` in a stack file, or what
            `components.loading.loader.load` made of it.
        kubeconfig: contents of the cluster's kubeconfig, kept secret, which has the context
            `kubernetes.context`; None: that context is the machine's.
        private_key: an SSH private key, kept secret; needed where there are hosts.
        registry_credentials: a Docker configuration in JSON, a secret; None: none is given.
        join_token: kubeadm's bootstrap token, a secret; needed where hosts join a cluster.
        secrets: the secrets that objects of the platform are filled from, by name.
        source: what messages call the settings, such as the name of their file.
    """

    settings: Mapping[str, Any] | Cluster
    kubeconfig: pulumi.Input[str] | None = field(default=None, repr=False)
    private_key: pulumi.Input[str] = field(default="", repr=False)
    registry_credentials: pulumi.Input[str] | None = field(default=None, repr=False)
    join_token: str | None = field(default=None, repr=False)
    secrets: Mapping[str, pulumi.Output[str]] = field(default_factory=dict)
    source: str = "settings"


@dataclass(frozen=True, kw_only=True)
class _Results:
    """The outputs of a `GpuCluster`, under the same names."""

    nodes: pulumi.Output[list[dict[str, Any]]]
    tests: pulumi.Output[list[dict[str, Any]]]
    charts: pulumi.Output[dict[str, str]]
    kubeconfig: pulumi.Output[str]
    join_token: pulumi.Output[str]


class GpuCluster(pulumi.ComponentResource):
    """The whole cluster: it resolves what is declared, looks at what is there, declares the rest.

    It makes its own providers. Where its kubeconfig or its key is an output, its children are
    declared as soon as that is known, so depend on its outputs rather than on itself.

    Attributes:
        nodes: what was validated, by node.
        tests: what user-defined tests measured.
        charts: versions of the charts.
        kubeconfig: of the cluster that it makes (`kubernetesPackages.init`), a secret; else empty.
        join_token: that cluster's token, likewise.
        desired: what is declared, resolved.
    """

    TYPE = "gpucluster:index:GpuCluster"

    def __init__(
        self, name: str, args: GpuClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        settings = _settings(args)
        self._called = name
        self.desired = resolve(settings, pulumi.get_stack())
        self._check(args)
        for warning in (*warnings(settings.hosts, self.desired.platform), *self._missing(args)):
            pulumi.log.warn(str(warning))
        key, kubeconfig = args.private_key, args.kubeconfig
        if isinstance(key, str) and (kubeconfig is None or isinstance(kubeconfig, str)):
            with given(kubeconfig):
                found = self._observe(args, key, kubeconfig)
                self._register(args, opts)
                results = self._declare(args, found)
            self.nodes, self.tests, self.charts = results.nodes, results.tests, results.charts
            self.kubeconfig, self.join_token = results.kubeconfig, results.join_token
            return
        self._register(args, opts)
        later: pulumi.Output[_Results] = pulumi.Output.from_input(self._once_known(args))
        self.nodes = later.apply(lambda results: results.nodes)
        self.tests = later.apply(lambda results: results.tests)
        self.charts = later.apply(lambda results: results.charts)
        self.kubeconfig = later.apply(lambda results: results.kubeconfig)
        self.join_token = later.apply(lambda results: results.join_token)

    def _register(self, args: GpuClusterArgs, opts: pulumi.ResourceOptions | None) -> None:
        """Register the component, and keep its secrets as such."""
        self._key = pulumi.Output.secret(args.private_key).apply(shortest)
        held = [judging(self.desired.rules)]
        self._kubeconfig = None
        if args.kubeconfig is not None:
            self._kubeconfig = pulumi.Output.secret(args.kubeconfig)
            held.append(with_kubeconfig(self._kubeconfig))
        own = pulumi.ResourceOptions(transformations=held)
        super().__init__(self.TYPE, self._called, None, pulumi.ResourceOptions.merge(opts, own))

    async def _once_known(self, args: GpuClusterArgs) -> _Results:
        """Look at the cluster and declare the rest, after what the arguments wait for."""
        key, kubeconfig = await _value(self._key), await _value(self._kubeconfig)
        with given(kubeconfig):
            return self._declare(args, self._observe(args, key, kubeconfig))

    def _observe(self, args: GpuClusterArgs, key: str | None, kubeconfig: str | None) -> Difference:
        """Return what differs from what is declared; nothing of a cluster that isn't known yet.

        Args:
            args: the arguments.
            key, kubeconfig: their values, None where they have none or aren't known yet.
        """
        _refuse(refused(self.desired.hosts, key, args.join_token))
        if kubeconfig is not None and (fault := missing_context(self.desired.context, args.source)):
            _refuse([fault])
        waits = kubeconfig is None and args.kubeconfig is not None
        places = origins(args.settings) if isinstance(args.settings, Mapping) else {}
        unknown = UNKNOWN.format(self._called) if waits else ""
        return inspect(self.desired, key, places, args.source, unknown).difference

    def _check(self, args: GpuClusterArgs) -> None:
        if args.kubeconfig is not None and self.desired.kubeadm is not None:
            _refuse(
                [
                    Fault(
                        "kubeconfig",
                        "one, beside kubernetesPackages.init",
                        "one of them: the cluster is there, or the stack makes it",
                        "leave kubeconfig away, or declare no kubernetesPackages.init",
                    )
                ]
            )

    def _missing(self, args: GpuClusterArgs) -> list[str]:
        parts = self.desired.platform.extra_objects()
        return [part.without for part in parts if part.without and part.secret not in args.secrets]

    def _declare(self, args: GpuClusterArgs, difference: Difference) -> _Results:
        """Declare all parts, in their order."""
        name, desired = self._called, self.desired
        platform = desired.platform
        key, credentials = self._key, args.registry_credentials
        child = pulumi.ResourceOptions(parent=self)
        providers: list[pulumi.ProviderResource] = [
            pulumi_command.Provider(f"{name}-command", opts=child)
        ]
        if desired.kubeadm is None:
            providers.append(
                kubernetes_provider(
                    f"{name}-kubernetes",
                    desired.context,
                    desired.identifier,
                    child,
                    self._kubeconfig or "",
                )
            )
        made: KubeadmCluster | None = None

        def after(*resources: pulumi.Resource) -> pulumi.ResourceOptions:
            return pulumi.ResourceOptions(
                parent=self,
                depends_on=[*resources, *([made] if made else [])],
                providers=[*providers, *([made.provider] if made else [])],
            )

        copies = Copies(f"{name}-steps", key, difference.hosts.unreached)
        rollout = RolloutArgs(
            rollout=desired.rollout,
            has_hosts=bool(desired.hosts),
            operands=desired.operands,
            pools=desired.validation.pools,
            layouts=desired.layouts,
            private_key=key,
            plan=difference.rollout,
            join_token=args.join_token,
        )
        rolled = Rollout(f"{name}-rollout", rollout, copies, after())
        hosts = HostsArgs(
            hosts=desired.hosts,
            private_key=key,
            join_token=args.join_token,
            copies=copies,
            left=frozenset(difference.rollout.left),
            gate=rolled.done,
        )
        prepared = HostPreparation(
            f"{name}-host-preparation", replace(hosts, findings=difference.hosts.prepare), after()
        )
        rebooted = Reboot(
            f"{name}-reboot",
            RebootArgs(
                hosts=desired.hosts,
                rollout=desired.rollout,
                private_key=key,
                findings=difference.hosts.reboot,
            ),
            after(prepared),
        )
        runtime = ContainerRuntime(
            f"{name}-container-runtime",
            replace(
                hosts,
                findings=difference.hosts.runtime,
                after=prepared.commands,
                gate=rebooted.done,
            ),
            after(),
        )
        if desired.kubeadm is not None:
            members = replace(
                hosts,
                findings=difference.hosts.cluster,
                after={**prepared.commands, **runtime.commands},
                gate=rebooted.done,
            )
            made = KubeadmCluster(
                f"{name}-kubeadm-cluster",
                KubeadmClusterArgs(
                    cluster=desired.kubeadm, hosts=members, there=difference.context
                ),
                after(),
            )
        joins = any(host.joins for host in desired.hosts)
        scheduling = NodeScheduling(
            f"{name}-node-scheduling",
            NodeSchedulingArgs(scheduling=desired.scheduling, findings=difference.scheduling.pools),
            after(*([prepared] if joins else [])),
        )
        if desired.guardrails is not None:
            own = frozenset(space.name for space in desired.namespaces if space.privileged)
            guarded = GuardrailsArgs(context=desired.rules, own=own, guardrails=desired.guardrails)
            Guardrails(f"{name}-guardrails", guarded, after())
        ready: list[pulumi.Resource] = [runtime, scheduling]
        served = PlatformArgs(
            charts=desired.charts,
            registry_credentials=credentials,
            secrets=args.secrets,
            unfinished=difference.platform.unfinished,
        )
        if desired.installer is not None:
            installers = DriverInstallerArgs(
                settings=desired.installer,
                site=platform.site,
                registry_credentials=credentials,
            )
            ready.append(DriverInstaller(f"{name}-driver-installer", installers, after(*ready)))
        serving = GpuPlatform(f"{name}-gpu-platform", platform, served, after(*ready))
        checked = presence(
            f"{name}-presence",
            desired.presence,
            (*difference.platform.missing, *difference.platform.unfinished),
            serving.revision,
            after(serving),
        )
        layouts = MigLayoutsArgs(
            rollout=desired.rollout,
            layouts=desired.layouts,
            pools=desired.validation.pools,
            private_key=key,
            has_hosts=bool(desired.hosts),
            plan=difference.layouts,
        )
        divided: list[pulumi.Resource] = []
        if layouts.needed:
            divided.append(MigLayouts(f"{name}-mig-layouts", layouts, after(serving, checked)))
        validation = Validation(
            f"{name}-validation",
            ValidationArgs(
                validation=desired.validation,
                registry_credentials=credentials,
                findings=difference.validation.pools,
                private_key=key,
            ),
            after(serving, checked, *divided),
        )
        if desired.monitoring is not None:
            Monitoring(
                f"{name}-monitoring",
                MonitoringArgs(
                    monitoring=desired.monitoring,
                    platform=platform,
                    groups=difference.groups,
                    registry_credentials=credentials,
                ),
                after(serving),
            )
        charts = serving.version.apply(lambda version: {platform.chart: version})
        self.register_outputs({"nodes": validation.nodes, "charts": charts})
        none = pulumi.Output.from_input("")
        return _Results(
            nodes=validation.nodes,
            tests=validation.tests,
            charts=charts,
            kubeconfig=pulumi.Output.secret(made.kubeconfig) if made else none,
            join_token=pulumi.Output.secret(made.token) if made else none,
        )


def _settings(args: GpuClusterArgs) -> Cluster:
    """Return what is declared, checked.

    Raises:
        RunError: every fault of it, by its path.
    """
    try:
        if not isinstance(args.settings, Cluster):
            return load(args.settings)
        if not is_loaded(args.settings):
            check(args.settings.parts())
    except ConfigError as error:
        raise pulumi.RunError(f"{args.source}: {error}") from None
    return args.settings


def _refuse(faults: Iterable[Fault]) -> None:
    """Raise a RunError if there are faults."""
    if lines := list(map(str, faults)):
        raise pulumi.RunError("\n".join(lines))


async def _value(output: pulumi.Output[str] | None) -> str | None:
    """Return the value of an output; None: it isn't known yet, or there is none."""
    if output is None or not await output.is_known():
        return None
    return await output.future()
