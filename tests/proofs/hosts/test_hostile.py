"""Hostile values in a host script, such as shell commands, arrive on a host as plain data."""

from __future__ import annotations

from gpu_cluster.hosts.script import header
from tests.components.hosts.hostile import HOSTILE
from tests.proofs.hosts.machine import Running


def test_hostile_values_arrive_as_data_on_a_host(host: Running) -> None:
    names = {f"V{number}": value for number, value in enumerate(HOSTILE)}
    script = header(names) + "main() {\n"
    script += "".join(f"printf '%s\\n--\\n' \"${name}\"\n" for name in names)
    script += '}\nmain "$@" </dev/null\n'
    done = host.run("sh -s -- apply", script)
    assert done.errors == ""
    assert done.output.split("\n--\n")[:-1] == HOSTILE
    assert not host.exists("/run/owned")
