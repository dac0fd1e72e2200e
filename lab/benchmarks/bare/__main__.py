"""Plain Pulumi program with the same resources as this project's stack, for comparison.

It has no configuration, inspection or rules. The file `resources.json` in the same folder lists the
resources from the state of this project's stack, parents first. Secret values stay Pulumi secrets.
"""

import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pulumi
import pulumi_command as command
import pulumi_kubernetes as k8s


def kubernetes_provider(
    name: str, opts: pulumi.ResourceOptions, **settings: Any
) -> pulumi.ProviderResource:
    """Declare the Kubernetes provider with settings that the SDK's own class may not know."""
    version = pulumi.ResourceOptions(version=metadata.version("pulumi-kubernetes"))
    merged = pulumi.ResourceOptions.merge(version, opts)
    return pulumi.ProviderResource("kubernetes", name, settings, merged)


#: The values are functions instead of classes, because the SDK loads an API group when one of its
#: classes is first accessed.
CLASSES: dict[str, Callable[[], Callable[..., pulumi.Resource]]] = {
    "pulumi:providers:command": lambda: command.Provider,
    "pulumi:providers:kubernetes": lambda: kubernetes_provider,
    "kubernetes:core/v1:Namespace": lambda: k8s.core.v1.Namespace,
    "kubernetes:core/v1:ConfigMap": lambda: k8s.core.v1.ConfigMap,
    "kubernetes:core/v1:NodePatch": lambda: k8s.core.v1.NodePatch,
    "kubernetes:scheduling.k8s.io/v1:PriorityClass": lambda: k8s.scheduling.v1.PriorityClass,
    "kubernetes:helm.sh/v3:Release": lambda: k8s.helm.v3.Release,
    "command:remote:Command": lambda: command.remote.Command,
    "command:local:Command": lambda: command.local.Command,
}


def given(value: Any) -> Any:
    """Return a resource argument with its secrets as secret Pulumi outputs.

    A mapping whose only key is the marker of secrets stands for a secret value.
    """
    if isinstance(value, dict):
        if value.keys() == {declared["secret"]}:
            return pulumi.Output.secret(value[declared["secret"]])
        return {key: given(item) for key, item in value.items()}
    return value


declared = json.loads(Path("resources.json").read_text())
made: dict[str, Any] = {}
for resource in declared["resources"]:
    options = pulumi.ResourceOptions(
        parent=made.get(resource["parent"]),
        depends_on=[made[name] for name in resource["dependsOn"]],
        provider=made.get(resource["provider"]),
    )
    if resource["component"]:
        component = pulumi.ComponentResource(resource["type"], resource["name"], None, options)
        component.register_outputs(resource["outputs"])
        made[resource["name"]] = component
        continue
    arguments = given(resource["arguments"])
    kind = CLASSES[resource["type"]]()
    made[resource["name"]] = kind(resource["name"], **arguments, opts=options)
for name, value in declared["outputs"].items():
    pulumi.export(name, value)
