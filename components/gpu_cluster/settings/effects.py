"""Effects of a change of each section of the stack file, for the page of all settings.

Each effect names edits whose previews show it; a test compares both (tests/components/change).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Effect of a change of a section.

    Attributes:
        changes: What a run changes, as a sentence.
        disrupts: What happens to pods, as a sentence.
        drains: True if a change drains nodes.
        edits: Names of edits in the tests of previews that show the effect.
    """

    changes: str
    disrupts: str
    drains: bool = False
    edits: tuple[str, ...] = ()


_NOTHING = "No pod."
_WAVES = "Nodes are drained and changed in waves; pods on them are evicted."
_RESTARTS = (
    "The platform's pods restart, node by node. Running pods keep their GPUs; new pods get none "
    "of a node meanwhile."
)
_PLATFORM = "The platform's Helm release. GPUs are validated again."
_HOSTS = "Files, packages and services of hosts."

EFFECTS = {
    "version": Effect(changes="Nothing; it is the version of this format.", disrupts=_NOTHING),
    "kubernetes": Effect(
        changes="The cluster that the stack works on. Another `clusterIdentifier` replaces every "
        "deployed object.",
        disrupts="Another cluster or identifier: all deployed objects are deleted and created.",
    ),
    "pools": Effect(
        changes="Labels, taints and expected GPUs of nodes; MIG layouts. Nodes with another number "
        "of GPUs are validated again. See the sections of its settings for overrides.",
        disrupts="A NoExecute taint evicts pods that don't tolerate it. `mig` drains nodes in "
        "waves. Other changes: no pod.",
        drains=True,
        edits=("partitioned GPUs",),
    ),
    "hosts": Effect(
        changes="A new host is prepared; a removed host gets back its former files, which its node "
        "must not need any more.",
        disrupts=_NOTHING,
        edits=("a host more", "a host and its node fewer"),
    ),
    "stateCopies": Effect(
        changes="How many copies of the state its local backend keeps.", disrupts=_NOTHING
    ),
    "maintenance": Effect(
        changes="Listed nodes and hosts are neither changed nor counted.",
        disrupts=_NOTHING,
        edits=("a node in maintenance",),
    ),
    "ssh": Effect(changes="How hosts are reached; nothing on them.", disrupts=_NOTHING),
    "rollout": Effect(
        changes="How many nodes are changed at the same time.",
        disrupts=_NOTHING,
        edits=("only wider waves",),
    ),
    "driver": Effect(
        changes="The driver of hosts, or of the platform's driver container. GPUs are validated "
        "again.",
        disrupts=_WAVES,
        drains=True,
        edits=("the loaded driver goes down", "the driver goes up"),
    ),
    "kernel": Effect(
        changes="The kernel of hosts.",
        disrupts=f"{_WAVES} Hosts reboot.",
        drains=True,
        edits=("another kernel",),
    ),
    "cuda": Effect(changes="The CUDA toolkit of hosts.", disrupts=_NOTHING),
    "runtime": Effect(
        changes="The container engine's configuration. GPUs are validated again.",
        disrupts=_WAVES,
        drains=True,
        edits=("devices by environment", "another default runtime", "no CDI"),
    ),
    "system": Effect(
        changes="Kernel parameters, limits, swap, modules and firewall of hosts.",
        disrupts=_NOTHING,
        edits=("a kernel parameter", "swap stays on", "limits", "open ports"),
    ),
    "packages": Effect(changes="Packages of hosts.", disrupts=_NOTHING, edits=("a package",)),
    "kubernetesPackages": Effect(
        changes="kubelet, kubeadm and kubectl of hosts; with `init`, the cluster itself.",
        disrupts="Another version drains nodes in waves, the control plane first.",
        drains=True,
    ),
    "proxy": Effect(
        changes="Proxy settings of package managers and of the container engine on hosts.",
        disrupts="No pod: the container engine restarts only on hosts where no container with "
        "GPUs runs.",
    ),
    "reboot": Effect(
        changes="Whether a pending reboot of a host is done.",
        disrupts="Nodes of hosts with a pending reboot are drained and rebooted in waves.",
        drains=True,
        edits=("reboots allowed, and one is pending",),
    ),
    "platform": Effect(
        changes="The old platform is removed, then the new one is installed. GPUs are validated "
        "again.",
        disrupts="Running pods keep their GPUs; no pod can get a GPU until the new platform runs. "
        "If it brings its own container toolkit, hosts' nodes are drained in waves before.",
        edits=("the GPU Operator",),
    ),
    "adopted": Effect(
        changes="Which Helm release or objects the stack takes over as they are.",
        disrupts=_NOTHING,
    ),
    "devicePlugin": Effect(
        changes=_PLATFORM,
        disrupts=_RESTARTS,
        edits=("a newer chart", "an older chart", "shared GPUs"),
    ),
    "gpuOperator": Effect(changes=_PLATFORM, disrupts=_RESTARTS),
    "gpuManager": Effect(changes=_PLATFORM, disrupts=_RESTARTS),
    "hami": Effect(changes=_PLATFORM, disrupts=_RESTARTS),
    "dra": Effect(changes=_PLATFORM, disrupts=_RESTARTS),
    "driverInstaller": Effect(
        changes="The DaemonSet that installs the driver.",
        disrupts="The driver's containers are replaced, node by node.",
    ),
    "scheduling": Effect(
        changes="Labels and taints of single nodes; priority classes; limits of namespaces.",
        disrupts=_NOTHING,
        edits=("a label of one node",),
    ),
    "monitoring": Effect(changes="Exporter, alerts and dashboard.", disrupts=_NOTHING),
    "validation": Effect(
        changes="The pods that run a kernel on each GPU; another image validates all GPUs again.",
        disrupts=_NOTHING,
        edits=("another image of the validation",),
    ),
    "guardrails": Effect(
        changes="Admission policies and quotas; they apply to new pods.",
        disrupts=_NOTHING,
    ),
    "charts": Effect(changes="Where charts come from.", disrupts=_NOTHING),
    "registry": Effect(
        changes="Where images come from. GPUs are validated again.",
        disrupts=_NOTHING,
        edits=("a mirror of images",),
    ),
}
"""Effect of each section at the top of `gpu-cluster:cluster`, by its key."""
