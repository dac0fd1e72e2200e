"""GPUs that several pods share, and the device plugin's configuration file that shares them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from policies.rules.context import Context, Mig, Severity, Sharing
from policies.rules.embedded import embedded
from policies.rules.gpu_resources import entries
from policies.rules.helm import release
from policies.rules.resource_names import GPU, GPU_SHARED, MIG
from policies.rules.rule import Finding, Need, Rule, Subject
from policies.rules.unknown import UNKNOWN, at, mapping, sequence


def _one_share(subject: Subject, context: Context) -> Iterator[Finding]:
    plugin = context.plugin
    shared = {GPU_SHARED}
    if plugin and plugin.sharing is not Sharing.NONE and not plugin.renamed:
        shared.add(GPU)
    for container, resource in entries(subject):
        if resource.name in shared and resource.quantity and resource.quantity.units > 1:
            yield Finding(
                path=resource.path,
                found=str(resource.quantity),
                wanted="1",
                cure="More shares give no more of a GPU; ask for one, or for a whole GPU.",
                container=container.name,
            )


def _advertised_name(subject: Subject, context: Context) -> Iterator[Finding]:
    plugin = context.plugin
    if plugin is None or subject.pod is None:
        return
    shared = plugin.sharing is not Sharing.NONE and plugin.renamed
    wrong, right = (GPU, GPU_SHARED) if shared else (GPU_SHARED, GPU)
    for container in subject.pod.containers:
        if wrong in container.resource_names:
            yield Finding(
                path=f"{container.path}.resources",
                found=wrong,
                wanted=right,
                cure="The plugin's renameByDefault decides the name that nodes advertise.",
                container=container.name,
            )


def _mig_strategy(subject: Subject, context: Context) -> Iterator[Finding]:
    plugin = context.plugin
    if plugin is None or subject.pod is None or plugin.mig is Mig.MIXED:
        return
    for container in subject.pod.containers:
        for name in sorted(container.resource_names):
            if name.startswith(MIG) and name not in context.resource_names:
                yield Finding(
                    path=f"{container.path}.resources",
                    found=name,
                    wanted=f"{GPU}, what migStrategy {plugin.mig} advertises",
                    cure="Ask for that, or set migStrategy: mixed in the plugin's configuration.",
                    container=container.name,
                )


def plugin_files(subject: Subject) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The device plugin's configuration files in a ConfigMap or in Helm values, with their paths.

    NVIDIA k8s-device-plugin v0.20.0 api/config/v1; values `config.map` of its chart,
    `devicePlugin.config.data` of gpu-operator v26.7.0.
    """
    places: dict[str, object] = {}
    if subject.kind == "ConfigMap" and subject.group_version == "v1":
        places["data"] = at(subject.manifest, "data")
    elif found := release(subject):
        places["values.config.map"] = at(found.values, "config", "map")
        places["values.devicePlugin.config.data"] = at(
            found.values, "devicePlugin", "config", "data"
        )
    for path, files in places.items():
        for name, content in mapping(files).items():
            document = embedded(content)
            if document.get("version") == "v1":
                yield f"{path}[{name}]", document


def _refuses_more(subject: Subject, _: Context) -> Iterator[Finding]:
    for path, document in plugin_files(subject):
        slicing = at(document, "sharing", "timeSlicing")
        refuses = at(slicing, "failRequestsGreaterThanOne")
        if sequence(at(slicing, "resources")) and refuses is not True and refuses is not UNKNOWN:
            yield Finding(
                path=f"{path}.sharing.timeSlicing.failRequestsGreaterThanOne",
                found="false" if refuses is False else "nothing, which is false",
                wanted="true",
                cure="Without it a pod that asks for two shares holds two and gets one GPU.",
            )


RULES = (
    Rule(
        id="GPU023",
        title="One share of a shared GPU is enough",
        severity=Severity.ADVISORY,
        check=_one_share,
        why="Two shares of a time-sliced GPU give no more time than one, and with "
        "failRequestsGreaterThanOne the kubelet ends the pod with UnexpectedAdmissionError.",
        source="NVIDIA k8s-device-plugin internal/rm/rm.go, api/config/v1/config.go",
    ),
    Rule(
        id="GPU042",
        title="Time-slicing refuses requests for several shares",
        severity=Severity.ADVISORY,
        check=_refuses_more,
        why="With failRequestsGreaterThanOne a pod that asks for several shares is refused instead "
        "of holding them for nothing. It is false by default for time-slicing, true for MPS.",
        source="NVIDIA k8s-device-plugin v0.20.0 api/config/v1/config.go, replicas.go",
    ),
    Rule(
        id="GPU043",
        title="A shared GPU is asked for by the name that it has",
        severity=Severity.MANDATORY,
        check=_advertised_name,
        why="With renameByDefault the device plugin advertises shared GPUs as "
        "nvidia.com/gpu.shared and no nvidia.com/gpu at all; without it the other way round.",
        source="NVIDIA k8s-device-plugin v0.20.0 api/config/v1/replicas.go, internal/rm",
        needs=frozenset({Need.PLUGIN}),
    ),
    Rule(
        id="GPU044",
        title="MIG devices are asked for by name only where they are advertised by name",
        severity=Severity.MANDATORY,
        check=_mig_strategy,
        why="Only migStrategy mixed advertises nvidia.com/mig-<profile>; with single every MIG "
        "device counts as nvidia.com/gpu, with none only whole GPUs do.",
        source="NVIDIA k8s-device-plugin v0.20.0 README, MIG strategies; internal/resource",
        needs=frozenset({Need.PLUGIN}),
    ),
)
