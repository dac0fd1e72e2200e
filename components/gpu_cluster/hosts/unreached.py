"""Find the hosts that gave no answer and that a run would change: it would fail on them later.

What a host was last applied with is read from the stack's state, because the host can't be asked.
The phase `cluster` is left out: its scripts depend on what the control plane prints. For that phase
a hook refuses the change (`gpu_cluster.hosts.copies`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.command import command_line, connection
from gpu_cluster.hosts.copies import unreached_fault
from gpu_cluster.hosts.phases import (
    preparation_seconds,
    prepare_script,
    runtime_script,
    runtime_seconds,
)
from gpu_cluster.hosts.prepared import COMMAND, preparation_of
from gpu_cluster.hosts.recorded import recorded_outputs
from gpu_cluster.ssh.keys import shortest
from gpu_rules.faults import Fault

Inputs = Mapping[str, Any]


def unreached_changes(
    name: str,
    hosts: Iterable[DesiredHost],
    unreached: Mapping[str, HostFacts],
    private_key: str,
    join_token: str | None,
) -> Iterator[Fault]:
    """Yield a fault for each host that gave no answer and would be changed.

    Args:
        name: Name of the component `GpuCluster`.
        unreached: Facts of the hosts that the inspection could not reach, by host name.
        private_key: SSH private key of the hosts.
        join_token: kubeadm's bootstrap token. None: the stack has none.
    """
    silent = [host for host in hosts if host.name in unreached and not host.in_maintenance]
    recorded = recorded_outputs() if silent else {}
    for host in silent:
        declared = declared_inputs(name, host, private_key, join_token)
        if any(
            _is_changed(inputs, recorded.get(resource)) for resource, inputs in declared.items()
        ):
            yield unreached_fault(host.name, unreached[host.name])


def declared_inputs(
    name: str, host: DesiredHost, private_key: str, join_token: str | None
) -> dict[str, Inputs]:
    """Return the inputs of a host's Commands, by type and name as in `recorded_outputs`."""

    def inputs(script: str, longer: int) -> Inputs:
        return {
            "connection": _plain_data(connection(host, shortest(private_key))),
            "create": command_line(host, "apply", longer),
            "delete": command_line(host, "undo", longer),
            "stdin": script,
        }

    text = str(prepare_script(host, join_token))
    command_inputs = {preparation_of(name): inputs(text, preparation_seconds(host))}
    if host.configures_runtime:
        text = str(runtime_script(host))
        command_inputs[f"{name}-container-runtime"] = inputs(text, runtime_seconds(host))
    return {
        f"{COMMAND}::{command}-{host.name}": phase_inputs
        for command, phase_inputs in command_inputs.items()
    }


def _is_changed(declared: Any, applied: Any) -> bool:
    """Return whether a declared input differs from the applied one; unset inputs don't count.

    The engine keeps all numbers as floating-point numbers, which equal Python's integers.
    """
    if isinstance(declared, Mapping):
        recorded = applied if isinstance(applied, Mapping) else {}
        return any(
            _is_changed(value, recorded.get(key))
            for key, value in declared.items()
            if value is not None
        )
    return bool(declared != applied)


def _plain_data(value: Any) -> Any:
    """Return arguments of a Command as plain data with the property names of the state."""
    if not hasattr(type(value), "_pulumi_input_type"):
        return value
    return {
        _camel_case(key): _plain_data(item) for key, item in vars(value).items() if item is not None
    }


def _camel_case(name: str) -> str:
    head, *further_words = name.split("_")
    return head + "".join(word.capitalize() for word in further_words)
