"""Component that installs the NVIDIA driver with an installer DaemonSet, one per pool with GPUs.

The component owns its namespace and the DaemonSets. It does not unload the driver when it is
destroyed: a kernel module in use can't be unloaded, so the driver stays loaded until the next
reboot.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import pulumi

from gpu_cluster.charts.images import PAUSE
from gpu_cluster.desired.pool import POOL_LABEL
from gpu_cluster.driver_daemonset.driver_daemonset import InstallersRequest
from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.manifest import Manifest
from gpu_cluster.operation import run_program
from gpu_cluster.platforms.site import Site
from gpu_cluster.release.namespace import NamespaceArgs, own_namespace
from gpu_cluster.requests import write
from gpu_cluster.settings.driver_installer import DriverInstallerSettings
from gpu_cluster.settings.nodes.pool import Pool

INSTALLER = "gpu-cluster/driver-installer"
INSTALLED = "/home/kubernetes/bin/nvidia"
"""Host folder in which the driver installers of Google and kubespray put the driver's files."""
PROGRAMS = (
    *("nvidia-smi", "nvidia-debugdump", "nvidia-persistenced"),
    *("nvidia-cuda-mps-control", "nvidia-cuda-mps-server"),
)
"""Programs that NVIDIA's toolkit mounts into containers (libnvidia-container 1.17, nvc_info.c)."""
PLACE_PROGRAMS = f"""\
for name in {" ".join(PROGRAMS)}; do
    from=/root{INSTALLED}/bin/$name
    to=/root/usr/local/bin/$name
    [ -f "$from" ] && [ ! -e "/root/usr/bin/$name" ] || continue
    cmp -s "$from" "$to" && continue
    mkdir -p /root/usr/local/bin && cp "$from" "$to.new" && chmod 755 "$to.new" || exit 1
    mv -f "$to.new" "$to" || exit 1
done
[ -x /root/usr/local/bin/nvidia-smi ] || [ -x /root/usr/bin/nvidia-smi ] || {{
    echo "found no nvidia-smi below {INSTALLED}/bin after the installer has ended" >&2
    exit 1
}}
"""
"""Script that copies the driver's programs to a folder of the host's PATH.

NVIDIA's toolkit searches PATH below the driver's root, and the installers put programs elsewhere.
The script copies the programs instead of linking them, because the toolkit mounts the target of a
link under the target's name.
"""
# CPU request of kubespray's driver installer (role container_engine_accelerator/nvidia_gpu).
CPU = "150m"
# Seconds for all nodes to download, compile and load the driver.
ROLLOUT = 1800


def node_selector(pool: Pool) -> dict[str, str]:
    """Return the node selector of a pool: its own selector, or the label that all its nodes get."""
    if pool.selector is not None:
        return dict(pool.selector)
    return {POOL_LABEL: pool.name}


def daemon_set(settings: DriverInstallerSettings, site: Site, pool: Pool) -> dict[str, Any]:
    """Return the installer DaemonSet of a pool.

    The image compiles and loads the driver in an init container, so that the pod is Ready only once
    the driver is loaded. The environment and the mounts are those of
    GoogleCloudPlatform/container-engine-accelerators, nvidia-driver-installer/ubuntu
    (entrypoint.sh, daemonset.yaml), which kubespray deploys.
    """
    version = settings.version_of(pool.name, pool.driver.version) or ""
    url = settings.url_of(pool.name, version)
    name = f"nvidia-driver-installer-{pool.name}"
    labels = {INSTALLER: pool.name}
    environment = {
        "NVIDIA_DRIVER_VERSION": version,
        "NVIDIA_DRIVER_DOWNLOAD_URL": url,
        "NVIDIA_INSTALL_DIR_HOST": INSTALLED,
        "NVIDIA_INSTALL_DIR_CONTAINER": "/usr/local/nvidia",
        "ROOT_MOUNT_DIR": "/root",
        **site.proxy.both_cases,
    }
    mounts = {
        "nvidia-install-dir-host": (INSTALLED, "/usr/local/nvidia"),
        "dev": ("/dev", "/dev"),
        "root-mount": ("/", "/root"),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": name,
            "namespace": settings.namespace,
            "labels": {**LABELS, **labels},
            # Pulumi need not wait: the program driver-daemonset waits, and its errors name the
            # nodes.
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    **site.registry.pull_secrets,
                    "hostPID": True,
                    "priorityClassName": "system-node-critical",
                    "nodeSelector": node_selector(pool),
                    "tolerations": [
                        {"key": "CriticalAddonsOnly", "operator": "Exists"},
                        *site.tolerations_on((pool,)),
                    ],
                    "initContainers": [
                        {
                            "name": "nvidia-driver-installer",
                            "image": site.registry.deployed(settings.image_of(pool.name)),
                            "env": [
                                {"name": key, "value": value} for key, value in environment.items()
                            ],
                            "securityContext": {"privileged": True},
                            "resources": {"requests": {"cpu": CPU}},
                            "volumeMounts": [
                                {"name": key, "mountPath": inside}
                                for key, (_, inside) in mounts.items()
                            ],
                            # If another driver is loaded, the installer logs that and exits; this
                            # policy shows the log in the pod's status.
                            "terminationMessagePolicy": "FallbackToLogsOnError",
                        },
                        {
                            "name": "nvidia-programs",
                            "image": site.registry.deployed(settings.image_of(pool.name)),
                            "command": ["sh", "-c", PLACE_PROGRAMS],
                            "resources": {"requests": {"cpu": CPU}},
                            "volumeMounts": [{"name": "root-mount", "mountPath": "/root"}],
                            "terminationMessagePolicy": "FallbackToLogsOnError",
                        },
                    ],
                    "containers": [{"name": "pause", "image": site.registry.deployed(PAUSE)}],
                    "volumes": [
                        {"name": key, "hostPath": {"path": outside}}
                        for key, (outside, _) in mounts.items()
                    ],
                },
            },
        },
    }


def digest_installers(sets: dict[str, dict[str, Any]]) -> str:
    """Return a short digest of installer DaemonSets; it changes if a manifest changes."""
    text = json.dumps(sets, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class DriverInstallerArgs:
    """Arguments of the component `DriverInstaller`.

    Attributes:
        settings: Section `driverInstaller` of the settings.
        site: Facts about the cluster that the platform depends on.
        registry_credentials: Docker configuration in JSON, a secret. None: no credentials.
    """

    settings: DriverInstallerSettings
    site: Site
    registry_credentials: pulumi.Input[str] | None = None


class DriverInstaller(pulumi.ComponentResource):
    """The driver installers: one installer DaemonSet per pool with GPUs.

    Pools may differ in flavour, operating system and driver version.
    """

    TYPE = "gpucluster:index:DriverInstaller"

    pools: pulumi.Output[list[str]]

    def __init__(
        self, name: str, args: DriverInstallerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Declare the namespace, the DaemonSets, and the Command that waits for them."""
        super().__init__(self.TYPE, name, None, opts)
        settings, site = args.settings, args.site
        space = NamespaceArgs(
            context=site.context,
            namespace=settings.namespace,
            pull_secret=site.registry.pull_secret,
            credentials=args.registry_credentials,
        )
        needed = own_namespace(self, name, space)
        sets = {
            pool.name: daemon_set(settings, site, pool)
            for pool in site.gpu_pools
            if pool.driver.managed_by_daemonset
        }
        resources = [
            Manifest(
                f"{name}-{pool}",
                manifest,
                pulumi.ResourceOptions(parent=self, depends_on=needed),
            )
            for pool, manifest in sets.items()
        ]
        run_program(
            f"{name}-driver-daemonset",
            "driver-daemonset",
            "wait",
            write(
                InstallersRequest(
                    context=site.context,
                    namespace=settings.namespace,
                    daemon_sets=tuple(
                        daemon_set["metadata"]["name"] for daemon_set in sets.values()
                    ),
                    timeout_seconds=ROLLOUT,
                )
            ),
            # If an installer's DaemonSet changes, this Command waits for its pods again.
            environment={"GPU_CLUSTER_INSTALLERS": digest_installers(sets)},
            ignored=(),
            opts=pulumi.ResourceOptions(parent=self, depends_on=resources),
        )
        self.pools = pulumi.Output.from_input(list(sets))
        self.register_outputs({"pools": self.pools})
