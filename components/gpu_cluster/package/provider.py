"""Pulumi provider that constructs the package's components for other Pulumi programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pulumi
from pulumi.errors import InputPropertiesError, InputPropertyErrorDetails
from pulumi.output import Unknown
from pulumi.provider import ConstructResult, Provider
from pydantic.alias_generators import to_camel

from gpu_cluster.cluster import GpuClusterArgs
from gpu_cluster.loading.loader import load
from gpu_cluster.package.packaged import COMPONENTS, Packaged
from gpu_cluster.package.schema import NAME, package_schema
from gpu_cluster.settings.declared_cluster import ClusterSettings
from gpu_rules.faults import ConfigError, Fault, Location, fault, worded
from gpu_rules.version import VERSION


class PackageProvider(Provider):
    """Pulumi provider of the components with type tokens `gpucluster:index:…`."""

    def __init__(self) -> None:
        """Create the provider with the package's schema."""
        super().__init__(VERSION, json.dumps(package_schema()))

    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: pulumi.Inputs,
        options: pulumi.ResourceOptions | None = None,
    ) -> ConstructResult:
        """Declare a component.

        Args:
            resource_type: Type token of the component.
            inputs: Inputs by their names in the schema; secret ones may be unknown.

        Raises:
            InputPropertiesError: An input has a fault; the error names its path.
            RunError: Hosts or cluster contradict the settings.
        """
        packaged = COMPONENTS.get(resource_type)
        if packaged is None:
            component_names = ", ".join(COMPONENTS)
            raise InputPropertiesError(
                f"{resource_type} is not in {NAME}; it has {component_names}; "
                "cure: use one of these",
                [],
            )
        settings = _settings_of_inputs(packaged, inputs)
        secrets: dict[str, Any] = {
            secret: inputs[to_camel(secret)]
            for secret in packaged.secrets
            if inputs.get(to_camel(secret)) is not None
        }
        declared = packaged.component(
            name,
            GpuClusterArgs(settings=settings, source=f"{NAME} {name}", **secrets),
            options,
        )
        state = {"nodes": declared.nodes, "tests": declared.tests, "charts": declared.charts}
        if packaged.makes_cluster:
            state["madeKubeconfig"] = declared.kubeconfig
        return ConstructResult(declared.urn, state)


def _settings_of_inputs(packaged: Packaged, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a component's inputs as settings, in the form of a stack file.

    Raises:
        InputPropertiesError: An input has a fault.
    """
    names = {ClusterSettings.model_fields[name].alias or name for name in packaged.sections}
    secrets = {to_camel(name) for name in packaged.secrets}
    plain_inputs = {name: value for name, value in inputs.items() if name not in secrets}
    faults = list(_foreign_inputs(plain_inputs, names, packaged))
    faults += [
        unknown_fault
        for name, value in plain_inputs.items()
        for unknown_fault in _unknown_values(value, (name,))
    ]
    faults += [
        fault((name,), "nothing", "a value", f'add "{name}:"')
        for name in sorted(to_camel(needed) for needed in packaged.needed)
        if name not in plain_inputs
    ]
    if not faults:
        document = {"version": "v1"}
        if packaged.component.PLATFORM:
            document["platform"] = packaged.component.PLATFORM
        document |= {name: _whole_numbers(value) for name, value in plain_inputs.items()}
        try:
            load(document)
        except ConfigError as error:
            faults = list(error.faults)
        else:
            return document
    raise InputPropertiesError("", list(map(_error_detail, faults)))


def _foreign_inputs(
    inputs: Mapping[str, Any], names: set[str], packaged: Packaged
) -> Iterator[Fault]:
    """Yield a fault for each input whose name the component does not define."""
    component = packaged.component.__name__
    for name in inputs:
        if name not in names:
            wanted = f"one of {', '.join(sorted(names))}"
            cure = f"remove it; {component} does not have it"
            yield fault((name,), f'an unknown input "{name}"', wanted, cure)


def _unknown_values(value: Any, location: Location) -> Iterator[Fault]:
    """Yield a fault for each setting that is another resource's output or a secret."""
    if isinstance(value, pulumi.Output | Unknown):
        yield fault(
            location,
            "an output of another resource, or a secret",
            "a value that is known when the program runs",
            "write the value, or read it from the stack's configuration; only "
            "kubeconfig, privateKey and registryCredentials may be outputs",
        )
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _unknown_values(item, (*location, str(key)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _unknown_values(item, (*location, index))


def _whole_numbers(value: Any) -> Any:
    """Convert whole floats in a value to integers; the engine sends every number as a float."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole_numbers(item) for item in value]
    return value


def _error_detail(fault: Fault) -> InputPropertyErrorDetails:
    """Convert a fault to the engine's format: the property's path and the reason."""
    reason = worded(fault.found, fault.wanted, fault.cure)
    return {"property_path": fault.place, "reason": reason}
