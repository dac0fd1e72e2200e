"""After a script was killed at any point, the next run completes it, or an undo removes it."""

from __future__ import annotations

import pytest

from tests.proofs.hosts.declared import prepare, runtime
from tests.proofs.hosts.machine import Running, differences

SCRIPTS = {"prepare": prepare(inline=True), "runtime": runtime(inline=True)}
POINTS = 2
"""Number of kills for each phase and action, spread evenly over the commands of a whole run."""


def counted(script: str, kill_at: int) -> str:
    """Return a script that kills itself before command number `kill_at` (bash's DEBUG trap)."""
    trap = f'N=0; set -T; trap \'N=$((N + 1)); [ "$N" -ne {kill_at} ] || kill -9 "$$"\' DEBUG\n'
    return trap + script.replace("printf 'changed=%s", "echo commands=$N; printf 'changed=%s")


def commands(host: Running, script: str, action: str) -> int:
    """Return the number of shell commands that a complete run of the script executes."""
    done = host.run(f"bash -s -- {action}", counted(script, 0))
    assert done.status == 0, done
    (line,) = [line for line in done.output.splitlines() if line.startswith("commands=")]
    return int(line.removeprefix("commands="))


def points(total: int) -> list[int]:
    return [total * number // (POINTS + 1) for number in range(1, POINTS + 1)]


@pytest.mark.parametrize("phase", SCRIPTS)
def test_the_run_after_a_killed_one_makes_it_good(host: Running, phase: str) -> None:
    script = SCRIPTS[phase]
    before = host.tree()
    applying = commands(host, script, "apply")
    applied = {path: text.split(" ")[0] for path, text in host.tree().items()}
    undoing = commands(host, script, "undo")
    assert differences(before, host.tree()) == {}

    for point in points(applying):
        killed = host.run("bash -s -- apply", counted(script, point))
        assert "changed=" not in killed.output, point
        assert host.apply(script).status == 0, point
        again = {path: text.split(" ")[0] for path, text in host.tree().items()}
        assert differences(applied, again) == {}, point
        assert host.apply(script).output == "changed=0\n", point
        assert host.undo(script).status == 0, point
        assert differences(before, host.tree()) == {}, point

    for point in points(applying):
        host.run("bash -s -- apply", counted(script, point))
        assert host.undo(script).status == 0, point
        assert differences(before, host.tree()) == {}, point

    for point in points(undoing):
        assert host.apply(script).status == 0, point
        killed = host.run("bash -s -- undo", counted(script, point))
        assert "changed=" not in killed.output, point
        assert host.undo(script).status == 0, point
        assert differences(before, host.tree()) == {}, point
    assert host.run("systemctl is-active containerd").output == "active\n"
