"""The component of a whole GPU cluster, from prepared hosts to validated GPUs.

The children are declared in the order in which a person would set up the cluster.
Public: any Pulumi program can declare one or more `GpuCluster` (docs/explanation/decisions, 0003).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pulumi
import pulumi_command

from gpu_cluster.change.edits import recorded_settings
from gpu_cluster.change.file import failures_written
from gpu_cluster.change.lines import StackFile
from gpu_cluster.charts.links import link_chart
from gpu_cluster.desired.parts import WHOLE, Part
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.driver_daemonset.component import DriverInstaller, DriverInstallerArgs
from gpu_cluster.guardrails.component import Guardrails, GuardrailsArgs
from gpu_cluster.hosts.command import HostsArgs
from gpu_cluster.hosts.component import ContainerRuntime, HostPreparation
from gpu_cluster.hosts.copies import Copies
from gpu_cluster.hosts.credentials import refused
from gpu_cluster.hosts.kubeadm.component import KubeadmCluster, KubeadmClusterArgs, manifests
from gpu_cluster.hosts.prepared import preparation_of
from gpu_cluster.hosts.reboot.component import Reboot, RebootArgs
from gpu_cluster.hosts.recorded import known_names
from gpu_cluster.hosts.unreached import unreached_changes
from gpu_cluster.inspection.bounds import completed
from gpu_cluster.inspection.difference import Difference
from gpu_cluster.inspection.gate import show_hosts, tell
from gpu_cluster.inspection.observe import inspect
from gpu_cluster.kubernetes.kubeconfig_contexts import given, missing_context
from gpu_cluster.loading.inventory import origins
from gpu_cluster.loading.loader import is_loaded, load
from gpu_cluster.loading.warnings import warnings
from gpu_cluster.monitoring.component import Monitoring, MonitoringArgs
from gpu_cluster.nodes.component import NodeScheduling, NodeSchedulingArgs
from gpu_cluster.operation import with_kubeconfig
from gpu_cluster.provider import kubernetes_provider
from gpu_cluster.release.admitted import refusals
from gpu_cluster.release.component import GpuPlatform, PlatformArgs
from gpu_cluster.release.judged import broken_rules, release_inputs, rendered_objects
from gpu_cluster.release.presence_component import presence
from gpu_cluster.release.recorded import platform_of
from gpu_cluster.rollout.component import Rollout, RolloutArgs
from gpu_cluster.rollout.mig_layouts_component import MigLayouts, MigLayoutsArgs
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.ssh.keys import shortest
from gpu_cluster.validation.component import Validation, ValidationArgs
from gpu_rules.faults import ConfigError, Fault, fault
from gpu_rules.guard import all_judged, judging
from gpu_rules.version import VERSION

SETTINGS = "settings"
"""Name of the output with the settings of the last run, by which a preview names edits."""
PROGRAM_VERSION = "version"
"""Name of the output with the version of this program, by which a preview names an upgrade."""
UNKNOWN = (
    "{}: its kubeconfig is known as soon as its cluster exists; until then the difference is "
    "unknown, and everything in the cluster is shown as if nothing of it were there"
)


@dataclass(frozen=True, kw_only=True)
class GpuClusterArgs:
    """Arguments of the component `GpuCluster`.

    Attributes:
        settings: The desired cluster: a document such as `gpu-cluster:cluster` in a stack file, or
            the result of `gpu_cluster.loading.loader.load`.
        kubeconfig: Contents of the cluster's kubeconfig, kept secret, with the context
            `kubernetes.context`. None: that context is in the kubeconfig of the engineer's machine.
        private_key: SSH private key, kept secret. Required if the cluster has hosts.
        registry_credentials: Docker configuration in JSON, a secret. None: no credentials.
        join_token: kubeadm's bootstrap token, a secret. Required if hosts join a cluster.
        secrets: Values of the Secrets that the GPU platform needs, by name.
        secret_values: True to keep the values of the platform's Helm release secret.
        source: Name of the settings in messages, such as the name of their file.
    """

    settings: Mapping[str, Any] | Cluster
    kubeconfig: pulumi.Input[str] | None = field(default=None, repr=False)
    private_key: pulumi.Input[str] = field(default="", repr=False)
    registry_credentials: pulumi.Input[str] | None = field(default=None, repr=False)
    join_token: str | None = field(default=None, repr=False)
    secrets: Mapping[str, pulumi.Output[str]] = field(default_factory=dict)
    secret_values: bool = False
    source: str = "settings"


@dataclass(frozen=True, kw_only=True)
class _Results:
    """Outputs of a `GpuCluster`, under the same names as the component's attributes."""

    nodes: pulumi.Output[list[dict[str, Any]]]
    tests: pulumi.Output[list[dict[str, Any]]]
    charts: pulumi.Output[dict[str, str]]
    kubeconfig: pulumi.Output[str]
    join_token: pulumi.Output[str]


@dataclass(frozen=True, kw_only=True)
class _Hosts:
    """Components of a cluster's hosts on which later resources depend.

    Attributes:
        prepared: Component that prepares the hosts. None: the program declares no hosts.
        runtime: Component that configures the hosts' container engines. None: the program declares
            no hosts.
        made: Component that creates the cluster with kubeadm. None: the cluster already exists.
    """

    prepared: HostPreparation | None = None
    runtime: ContainerRuntime | None = None
    made: KubeadmCluster | None = None


@dataclass(frozen=True, kw_only=True)
class _Served:
    """Platform that makes the nodes advertise GPUs.

    Attributes:
        resources: Resources that the validation depends on.
        charts: Versions of the Helm charts, by chart name.
    """

    resources: Sequence[pulumi.Resource]
    charts: pulumi.Output[dict[str, str]]


_After = Callable[..., pulumi.ResourceOptions]
"""Returns the options of a child that is declared after the given resources."""


class GpuCluster(pulumi.ComponentResource):
    """A whole GPU cluster: resolves the settings, inspects the cluster, declares the resources.

    The component creates its own providers. If the kubeconfig or the SSH key is an output, the
    children are declared as soon as that output is known. Resources that must come after the
    component use `depends_on=component.ready`: `depends_on=component` would miss these children.

    Attributes:
        ready: The component as soon as all its children are declared, as a value for `depends_on`.
        nodes: Results of the validation, one entry per node.
        tests: Measurements of the user-defined tests.
        charts: Versions of the Helm charts, by chart name.
        kubeconfig: Kubeconfig of the cluster that the component creates
            (`kubernetesPackages.init`), a secret. Empty if the component creates no cluster.
        join_token: kubeadm token with which hosts join the created cluster, a secret. Empty if the
            component creates no cluster.
        desired: The resolved settings.
    """

    TYPE = "gpucluster:index:GpuCluster"
    PARTS: ClassVar[frozenset[Part]] = WHOLE
    """The parts of the cluster that the component declares."""
    PLATFORM: ClassVar[str] = ""
    """The platform that the component installs. Empty: the settings name the platform."""

    def __init__(
        self, name: str, args: GpuClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Resolve the settings, inspect the cluster and declare all resources.

        Raises:
            RunError: The settings, the credentials or the kubeconfig have faults.
        """
        self._called = name
        with failures_written(name, args.source):
            settings = self._settings(args)
            self.desired = resolve(settings, pulumi.get_stack()).narrowed(self.PARTS)
            self._check(args)
            self._link_own_chart()
        for warning in (*warnings(settings), *self._missing(args)):
            pulumi.log.warn(str(warning))
        key, kubeconfig = args.private_key, args.kubeconfig
        self.ready: pulumi.Output[list[pulumi.Resource]]
        if isinstance(key, str) and (kubeconfig is None or isinstance(kubeconfig, str)):
            with given(kubeconfig):
                difference = self._observe(args, key, kubeconfig)
                self._register(args, opts)
                results = self._declare(args, difference)
            self.ready = pulumi.Output.from_input([self])
            self.nodes, self.tests, self.charts = results.nodes, results.tests, results.charts
            self.kubeconfig, self.join_token = results.kubeconfig, results.join_token
            return
        self._register(args, opts)
        later: pulumi.Output[_Results] = pulumi.Output.from_input(self._once_known(args))
        self.ready = later.apply(lambda _: [self])
        self.nodes = later.apply(lambda results: results.nodes)
        self.tests = later.apply(lambda results: results.tests)
        self.charts = later.apply(lambda results: results.charts)
        self.kubeconfig = later.apply(lambda results: results.kubeconfig)
        self.join_token = later.apply(lambda results: results.join_token)

    def _register(self, args: GpuClusterArgs, opts: pulumi.ResourceOptions | None) -> None:
        """Register the component and mark its SSH key and its kubeconfig as secrets."""
        self._key = pulumi.Output.secret(args.private_key).apply(shortest)
        transformations = [judging(self.desired.rules)]
        self._kubeconfig = None
        if args.kubeconfig is not None:
            self._kubeconfig = pulumi.Output.secret(args.kubeconfig)
            transformations.append(with_kubeconfig(self._kubeconfig))
        own_options = pulumi.ResourceOptions(
            transformations=transformations, depends_on=pulumi.Output.from_input(all_judged())
        )
        super().__init__(
            self.TYPE, self._called, None, pulumi.ResourceOptions.merge(opts, own_options)
        )

    async def _once_known(self, args: GpuClusterArgs) -> _Results:
        """Wait for SSH key and kubeconfig, inspect the cluster, and declare its resources."""
        key, kubeconfig = await _known_value(self._key), await _known_value(self._kubeconfig)
        with given(kubeconfig):
            return self._declare(args, self._observe(args, key, kubeconfig))

    def _observe(self, args: GpuClusterArgs, key: str | None, kubeconfig: str | None) -> Difference:
        """Inspect the cluster and its hosts; return how they differ from the settings.

        The result is empty for a cluster whose kubeconfig is not known yet.

        Args:
            key: Value of the SSH private key. None: it is not known yet.
            kubeconfig: Value of the kubeconfig. None: there is none, or it is not known yet.
        """
        waits = kubeconfig is None and args.kubeconfig is not None
        places = origins(args.settings) if isinstance(args.settings, Mapping) else {}
        unknown = UNKNOWN.format(self._called) if waits else ""
        with failures_written(self._called, args.source):
            _raise_faults(refused(self.desired.hosts, key, args.join_token))
            if kubeconfig is not None:
                _raise_faults(filter(None, [missing_context(self.desired.context, args.source)]))
            recorded = known_names() if {Part.HOSTS, Part.PLATFORM} & self.PARTS else None
            observed, change = inspect(
                self._called, self.desired, key, args.source, unknown, recorded
            )
            silent = observed.difference.hosts.unreached
            would_fail = unreached_changes(
                self._called, self.desired.hosts, silent, key or "", args.join_token
            )
            change = change.with_faults(map(str, would_fail))
            is_reached = not (change.unknown or change.uninspected)
            change = change.with_faults(self._refusals(is_reached=is_reached))
            show_hosts(self.desired.hosts, observed, places)
            tell(change, self.desired.stack, args.source)
        return observed.difference

    def _refusals(self, *, is_reached: bool) -> list[str]:
        """Return why the rules or the cluster's admission refuse objects of the platform's chart.

        Args:
            is_reached: Whether the cluster and the hosts were inspected.
        """
        if not self.desired.has_platform:
            return []
        inputs = release_inputs(self.desired.platform, self.desired.charts)
        if broken := list(broken_rules(inputs, self.desired.rules)):
            return broken
        if pulumi.runtime.is_dry_run() or not is_reached or not inputs:
            return []
        objects = rendered_objects(inputs)
        return completed(refusals(self.desired.context, inputs["namespace"], objects))

    def _check(self, args: GpuClusterArgs) -> None:
        """Raise an error for faults that don't depend on the inspection.

        Raises:
            RunError: There are two clusters, or a file of the network add-on can't be read.
        """
        if args.kubeconfig is not None and self.desired.kubeadm is not None:
            _raise_faults(
                [
                    Fault(
                        "kubeconfig",
                        "a kubeconfig, in addition to kubernetesPackages.init",
                        "only one of the two: either the cluster exists, or the stack creates it",
                        "leave kubeconfig out, or declare no kubernetesPackages.init",
                    )
                ]
            )
        if self.desired.kubeadm is not None:
            network = self.desired.kubeadm.init.network
            if network.manifest is not None:
                manifests(network.manifest)

    def _link_own_chart(self) -> None:
        """Make the link to the platform's chart if the chart is in this package."""
        if self.desired.has_platform and (chart := self.desired.platform.own_chart):
            link_chart(Path(self.desired.platform.repository), chart)

    def _missing(self, args: GpuClusterArgs) -> list[str]:
        if not self.desired.has_platform:
            return []
        objects = self.desired.platform.installation.objects
        return [
            cluster_object.without
            for cluster_object in objects
            if cluster_object.without and cluster_object.secret not in args.secrets
        ]

    def _declare(self, args: GpuClusterArgs, difference: Difference) -> _Results:
        """Declare all child resources, in the order of a cluster's setup."""
        name, desired = self._called, self.desired
        # Nothing is created without its provider, and no provider in a program that breaks a rule.
        judged: pulumi.Output[list[pulumi.Resource]] = pulumi.Output.from_input(all_judged())
        child = pulumi.ResourceOptions(parent=self, depends_on=judged)
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
        before = partial(_options, self, providers, ())
        hosts = self._declare_hosts(args, difference, before)
        if hosts.made is None:
            after: _After = before
        else:
            after = partial(_options, self, [*providers, hosts.made.provider], [hosts.made])
        if desired.guardrails is not None:
            guarded = GuardrailsArgs(
                context=desired.rules,
                own=desired.privileged_namespaces,
                guardrails=desired.guardrails,
            )
            Guardrails(f"{name}-guardrails", guarded, after())
        served = self._declare_platform(args, difference, hosts, after)
        nothing: pulumi.Output[list[dict[str, Any]]] = pulumi.Output.from_input([])
        nodes = tests = nothing
        if desired.has_validation:
            validation = Validation(
                f"{name}-validation",
                ValidationArgs(
                    validation=desired.validation,
                    registry_credentials=args.registry_credentials,
                    findings=difference.validation.pools,
                    private_key=self._key,
                ),
                after(*served.resources),
            )
            nodes, tests = validation.nodes, validation.tests
        self.register_outputs(
            {
                "nodes": nodes,
                "charts": served.charts,
                SETTINGS: _recorded(args),
                PROGRAM_VERSION: VERSION,
            }
        )
        none = pulumi.Output.from_input("")
        kubeadm = hosts.made
        return _Results(
            nodes=nodes,
            tests=tests,
            charts=served.charts,
            kubeconfig=pulumi.Output.secret(kubeadm.kubeconfig) if kubeadm else none,
            join_token=pulumi.Output.secret(kubeadm.token) if kubeadm else none,
        )

    def _declare_hosts(
        self, args: GpuClusterArgs, difference: Difference, before: _After
    ) -> _Hosts:
        """Declare the resources of the hosts and of a new kubeadm cluster.

        Args:
            difference: How hosts and cluster differ from the settings.
            before: Function that returns the resource options of a child.
        """
        name, desired, key = self._called, self.desired, self._key
        if Part.HOSTS not in self.PARTS:
            return _Hosts()
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
        rolled = Rollout(f"{name}-rollout", rollout, copies, before())
        hosts = HostsArgs(
            hosts=desired.hosts,
            private_key=key,
            join_token=args.join_token,
            copies=copies,
            left=frozenset(difference.rollout.left),
            gate=rolled.done,
        )
        prepared = HostPreparation(
            preparation_of(name), replace(hosts, findings=difference.hosts.prepare), before()
        )
        rebooted = Reboot(
            f"{name}-reboot",
            RebootArgs(
                hosts=desired.hosts,
                rollout=desired.rollout,
                private_key=key,
                findings=difference.hosts.reboot,
            ),
            before(prepared),
        )
        runtime = ContainerRuntime(
            f"{name}-container-runtime",
            replace(
                hosts,
                findings=difference.hosts.runtime,
                after=prepared.commands,
                gate=rebooted.done,
            ),
            before(),
        )
        if desired.kubeadm is None:
            return _Hosts(prepared=prepared, runtime=runtime)
        members = replace(
            hosts,
            findings=difference.hosts.cluster,
            after={**prepared.commands, **runtime.commands},
            gate=rebooted.done,
        )
        kubeadm = KubeadmCluster(
            f"{name}-kubeadm-cluster",
            KubeadmClusterArgs(cluster=desired.kubeadm, hosts=members, there=difference.context),
            before(),
        )
        return _Hosts(prepared=prepared, runtime=runtime, made=kubeadm)

    def _declare_platform(
        self, args: GpuClusterArgs, difference: Difference, hosts: _Hosts, after: _After
    ) -> _Served:
        """Declare what nodes need to advertise GPUs: labels, driver, platform, MIG, monitoring.

        Args:
            difference: How hosts and cluster differ from the settings.
            hosts: Components of the hosts.
            after: Function that returns the options of a child that depends on given resources.
        """
        name, desired, platform = self._called, self.desired, self.desired.platform
        credentials = args.registry_credentials
        if not desired.has_platform:
            ran = [hosts.runtime] if hosts.runtime else []
            return _Served(resources=ran, charts=pulumi.Output.from_input({}))
        joins = [hosts.prepared] if any(host.joins for host in desired.hosts) else []
        scheduling = NodeScheduling(
            f"{name}-node-scheduling",
            NodeSchedulingArgs(scheduling=desired.scheduling, findings=difference.scheduling.pools),
            after(*joins),
        )
        ready: list[pulumi.Resource] = [*([hosts.runtime] if hosts.runtime else []), scheduling]
        served = PlatformArgs(
            charts=desired.charts,
            registry_credentials=credentials,
            secrets=args.secrets,
            unfinished=difference.platform.unfinished,
            secret_values=args.secret_values,
            pools=desired.scheduling.pools,
        )
        if desired.installer is not None:
            installers = DriverInstallerArgs(
                settings=desired.installer,
                site=platform.site,
                registry_credentials=credentials,
            )
            ready.append(DriverInstaller(f"{name}-driver-installer", installers, after(*ready)))
        serving = GpuPlatform(platform_of(name), platform, served, after(*ready))
        checked = presence(
            f"{name}-presence",
            desired.presence,
            difference.platform.repaired,
            serving.revision,
            after(serving),
        )
        layouts = MigLayoutsArgs(
            rollout=desired.rollout,
            layouts=desired.layouts,
            pools=desired.validation.pools,
            private_key=self._key,
            has_hosts=bool(desired.hosts),
            plan=difference.layouts,
        )
        mig_layouts: list[pulumi.Resource] = []
        if layouts.needed:
            mig_layouts.append(MigLayouts(f"{name}-mig-layouts", layouts, after(serving, checked)))
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
        charts = serving.version.apply(lambda version: {platform.chart: version} if version else {})
        return _Served(resources=[serving, checked, *mig_layouts], charts=charts)

    def _settings(self, args: GpuClusterArgs) -> Cluster:
        """Return the validated settings.

        Raises:
            RunError: The settings have faults; the message names the path of each fault.
        """
        settings = args.settings
        try:
            if isinstance(settings, Cluster) and not is_loaded(settings):
                # Python code made it, so merge its overrides and check it, as for a stack file.
                settings = settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
            if not isinstance(settings, Cluster):
                platform_setting = {"platform": self.PLATFORM} if self.PLATFORM else {}
                settings = load(
                    {**platform_setting, **settings} if isinstance(settings, Mapping) else settings
                )
        except ConfigError as error:
            lines = StackFile.read(Path(args.source)).lines
            raise pulumi.RunError(str(error.located(args.source, lines))) from None
        if self.PLATFORM and settings.platform != self.PLATFORM:
            cure = f"write {self.PLATFORM}, or declare the whole as `GpuCluster`"
            _raise_faults([fault(("platform",), settings.platform, f"{self.PLATFORM} here", cure)])
        return settings


class GpuHosts(GpuCluster):
    """The hosts of a cluster: preparation, driver, container engine, kubeadm, reboots, rollout."""

    TYPE = "gpucluster:index:GpuHosts"
    PARTS = frozenset({Part.HOSTS})


class GpuDevicePlugin(GpuCluster):
    """NVIDIA's device plugin, with the labels and taints of the pools' nodes."""

    TYPE = "gpucluster:index:GpuDevicePlugin"
    PARTS = frozenset({Part.PLATFORM})
    PLATFORM = "device-plugin"


class GpuOperator(GpuCluster):
    """NVIDIA's GPU Operator, with the labels, taints and MIG layouts of the pools' nodes."""

    TYPE = "gpucluster:index:GpuOperator"
    PARTS = frozenset({Part.PLATFORM})
    PLATFORM = "gpu-operator"


class GpuValidation(GpuCluster):
    """A kernel on each declared GPU of a cluster, whoever makes the nodes advertise the GPUs."""

    TYPE = "gpucluster:index:GpuValidation"
    PARTS = frozenset({Part.VALIDATION})


class GpuGuardrails(GpuCluster):
    """The GPU rules at admission, and GPU quotas of namespaces."""

    TYPE = "gpucluster:index:GpuGuardrails"
    PARTS = frozenset({Part.GUARDRAILS})


def _options(
    parent: pulumi.Resource,
    providers: Sequence[pulumi.ProviderResource],
    needed: Sequence[pulumi.Resource],
    *resources: pulumi.Resource,
) -> pulumi.ResourceOptions:
    """Return the resource options of a child component.

    Args:
        parent: The component that the child belongs to.
        providers: Providers of the child and of its children.
        needed: Resources that each child needs.
        *resources: Resources that this child needs.
    """
    return pulumi.ResourceOptions(
        parent=parent, depends_on=[*resources, *needed], providers=[*providers]
    )


def _recorded(args: GpuClusterArgs) -> str:
    """Return the settings that the state keeps, with a digest in place of each secret."""
    if written := StackFile.read(Path(args.source)).settings:
        return recorded_settings(written)
    settings = args.settings
    if isinstance(settings, Cluster):
        settings = settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return recorded_settings(settings, has_secrets=args.secret_values)


def _raise_faults(faults: Iterable[Fault]) -> None:
    """Raise a RunError with one line per fault, if there are faults."""
    if lines := list(map(str, faults)):
        raise pulumi.RunError("\n".join(lines))


async def _known_value(output: pulumi.Output[str] | None) -> str | None:
    """Return the value of an output, or None if there is no output or it is not known yet."""
    if output is None or not await output.is_known():
        return None
    return await output.future()
