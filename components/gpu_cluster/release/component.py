"""Pulumi component of a platform: one Helm release with the same URN for every platform.

The component owns the platform's namespace, the release, the extra objects, and the programs that
run before and after the release. It does not own objects that the release's pods create.

Pulumi creates new resources before it deletes old ones, so two platforms would advertise the same
GPUs for some time. Therefore all platforms share one release resource, which is deleted before its
replacement, and a hook then waits until the last pods of the old platform have ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pulumi
import pulumi_kubernetes as k8s

from gpu_cluster.desired.pool import Members
from gpu_cluster.findings import Findings, told
from gpu_cluster.manifest import Manifest
from gpu_cluster.operation import run_program
from gpu_cluster.platforms.base import ExtraObject, Installation, Platform
from gpu_cluster.platforms.discovery import every
from gpu_cluster.platforms.requests import HelmRelease
from gpu_cluster.release import clear
from gpu_cluster.release.clearing import clearing
from gpu_cluster.release.namespace import NamespaceArgs, own_namespace
from gpu_cluster.release.recorded import release_of
from gpu_cluster.release.waits import waiting
from gpu_cluster.requests import write
from gpu_cluster.settings.chart_source import ChartSource
from gpu_cluster.settings.charts import ChartsSettings

# Seconds until a release that does not become ready counts as failed. Large pools need a long time
# to pull images; Helm's default of 300 s was too short for about 180 nodes (METR/hawk#1363).
TIMEOUT = 1800


@dataclass(frozen=True, kw_only=True)
class PlatformArgs:
    """Arguments of the component `GpuPlatform`, in addition to the platform itself.

    Attributes:
        charts: Section `charts` of the stack file: where charts come from.
        registry_credentials: Docker configuration in JSON (a secret), or None.
        secrets: The stack's secrets from which extra objects are filled, by name.
        unfinished: Inspection findings that an upgrade of the Helm release was interrupted.
        secret_values: True to keep the values of the release secret in outputs and state.
        pools: Pools of the stack.
    """

    charts: ChartsSettings
    registry_credentials: pulumi.Input[str] | None = None
    secrets: Mapping[str, pulumi.Output[str]] = field(default_factory=dict)
    unfinished: Findings = ()
    secret_values: bool = False
    pools: Sequence[Members] = ()


class GpuPlatform(pulumi.ComponentResource):
    """The platform's Helm release and all objects that belong to the platform."""

    TYPE = "gpucluster:index:GpuPlatform"

    version: pulumi.Output[str]
    revision: pulumi.Output[int]
    """Helm's revision number of the release after the last run; 0 if it is unknown."""

    def __init__(
        self,
        name: str,
        platform: Platform,
        args: PlatformArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declare the resources of a platform.

        Args:
            platform: The platform to install.
            opts: Resource options of the component.
        """
        super().__init__(self.TYPE, name, None, opts)
        self._name, self._args, self._context = name, args, platform.site.context
        self._made: dict[str, Manifest] = {}
        installation = platform.installation
        extra_objects = installation.objects
        servers = [
            extra_object.manifest["metadata"]["name"]
            for extra_object in extra_objects
            if extra_object.manifest["kind"] == "DaemonSet"
        ]
        hook = None
        served = installation.servers
        if served.beside:
            own_servers = clear.OwnServers(
                context=self._context,
                namespace=installation.namespace,
                selector=served.pods,
                declared=servers,
                release=served.daemon_set,
            )
            hook = clearing("servers", name, partial(clear.servers, own_servers), updates=True)
        needed = self._before(platform, installation)
        self.version = pulumi.Output.from_input(installation.version)
        self.revision = pulumi.Output.from_input(0)
        if installation.release is None:
            for extra_object in extra_objects:
                self._adopted(extra_object)
            self.register_outputs({"version": self.version})
            return
        release = self._release(platform, installation, installation.release, needed, hook)
        for extra_object in extra_objects:
            if extra_object.after:
                # Start a device plugin's DaemonSet only after the release's pods left its nodes.
                server = hook if extra_object.manifest["kind"] == "DaemonSet" else None
                self._part(extra_object, [*needed, release], server)
        self.revision = release.status.apply(_release_revision)
        self.register_outputs({"version": self.version})

    def _before(self, platform: Platform, installation: Installation) -> list[pulumi.Resource]:
        """Return the resources that the release needs.

        These are the namespace, its Secrets, the programs that record the state before the
        installation, and the extra objects.
        """
        name = self._name
        needed: list[pulumi.Resource] = []
        if installation.own_namespace:
            space = NamespaceArgs(
                context=self._context,
                namespace=installation.namespace,
                pull_secret=platform.site.registry.pull_secret,
                credentials=self._args.registry_credentials,
            )
            needed += own_namespace(self, name, space)
        for program in installation.programs:
            needed.append(
                run_program(
                    f"{name}-{program.key}",
                    program.name,
                    program.create,
                    write(program.request),
                    pulumi.ResourceOptions(parent=self),
                    delete=program.delete,
                    # The delete step reads from the create step's output which objects existed
                    # before.
                    has_previous_output=True,
                )
            )
        spaces = [manifest for manifest in needed if isinstance(manifest, Manifest)]
        return needed + [
            resource
            for extra_object in installation.objects
            if not extra_object.after and installation.release is not None
            for resource in self._part(extra_object, spaces, None)
        ]

    def _adopted(self, extra_object: ExtraObject) -> None:
        """Declare an adopted object, which stays in the cluster if the stack is destroyed."""
        metadata = extra_object.manifest["metadata"]
        options = pulumi.ResourceOptions(
            parent=self,
            import_=f"{metadata['namespace']}/{metadata['name']}",
            retain_on_delete=True,
        )
        Manifest(f"{self._name}-{extra_object.key}", extra_object.manifest, options)

    def _part(
        self,
        extra_object: ExtraObject,
        needed: Sequence[pulumi.Resource],
        hooks: pulumi.ResourceHookBinding | None,
    ) -> list[pulumi.Resource]:
        manifest = dict(extra_object.manifest)
        options = pulumi.ResourceOptions(parent=self, depends_on=list(needed), hooks=hooks)
        if extra_object.secret:
            value = self._args.secrets.get(extra_object.secret)
            if value is None:
                return []
            manifest["stringData"] = value.apply(extra_object.content)
            options.additional_secret_outputs = ["data", "stringData"]
        if extra_object.source:
            manifest["data"] = self._made[extra_object.source].spec.apply(extra_object.data)
        self._made[extra_object.key] = Manifest(
            f"{self._name}-{extra_object.key}", manifest, options
        )
        return [self._made[extra_object.key]]

    def _release(
        self,
        platform: Platform,
        installation: Installation,
        helm_release: HelmRelease,
        needed: Sequence[pulumi.Resource],
        ending: pulumi.ResourceHookBinding | None,
    ) -> k8s.helm.v3.Release:
        """Return the Helm release; its name is the chart's name or that of the adopted release.

        A failed release is kept, and the next run tries again. A release that was taken over is
        imported and then upgraded in place. No hook removes its record, and it stays in the cluster
        if the stack is destroyed.
        """
        chart = platform.chart
        other_platforms = clear.Others(
            context=self._context,
            selectors=[
                other_platform.servers.pods
                for other_platform in every()
                if other_platform.chart != chart
            ],
            pools=self._args.pools,
        )
        name = release_of(self._name)
        hooks = clearing("release", name, partial(clear.release, other_platforms))
        upgrade = partial(clear.upgrade, self._context)
        before = clearing("upgrade", name, upgrade, creates=False, updates=True).before_update or []
        if installation.is_adopted:
            hooks.before_create = None
        hooks.before_update = [*before, *((ending and ending.before_update) or [])]
        _add_hooks(hooks, waiting(self._context, helm_release.namespace, helm_release.name, name))
        unfinished = self._args.unfinished
        source = ChartSource(self._args.charts, chart, platform.repository, installation.version)
        return k8s.helm.v3.Release(
            name,
            k8s.helm.v3.ReleaseArgs(
                name=helm_release.name,
                namespace=helm_release.namespace,
                create_namespace=False,
                values=pulumi.Output.secret(installation.values)
                if self._args.secret_values
                else installation.values,
                timeout=TIMEOUT,
                cleanup_on_fail=True,
                # Change the description too: if Helm's pending record already has the new values,
                # the provider would otherwise find no difference and not upgrade the release.
                description=told(unfinished) if unfinished else None,
                **source.arguments,
            ),
            pulumi.ResourceOptions(
                parent=self,
                depends_on=list(needed),
                delete_before_replace=True,
                hooks=hooks,
                ignore_changes=None if unfinished else ["description"],
                import_=f"{helm_release.namespace}/{helm_release.name}"
                if installation.is_adopted
                else None,
                retain_on_delete=installation.is_adopted,
            ),
        )


def _add_hooks(hooks: pulumi.ResourceHookBinding, more: pulumi.ResourceHookBinding) -> None:
    """Add hooks to a binding; they run after its own."""
    hooks.before_create = [*(hooks.before_create or []), *(more.before_create or [])]
    hooks.before_update = [*(hooks.before_update or []), *(more.before_update or [])]
    hooks.after_create, hooks.after_update = more.after_create, more.after_update
    hooks.on_error = more.on_error


def _release_revision(status: k8s.helm.v3.outputs.ReleaseStatus | None) -> int:
    return int((status.revision if status else None) or 0)
