"""Programs that a Command runs on the engineer's machine, by names that don't change.

The state holds a Command's delete line until the resource is gone, so a name that a stack was
brought up with must work in every later release. A program, its module and its name in the state
are the same word, so a module may change its folder and never its name.
Run as ``sh components/run.sh NAME ACTION``: JSON on standard input, JSON on standard output, a
readable error and exit code 1 when it can't do its work. The context comes from the input, the
kubeconfig from the environment or with the input, so that the state names no file of one machine.
"""

from __future__ import annotations

import runpy
import sys

PROGRAMS = {
    "crds": "components.release.crds",
    "driver-daemonset": "components.driver_daemonset.driver_daemonset",
    "kubeconfig": "components.hosts.kubeadm.kubeconfig",
    "mig-layouts": "components.rollout.mig_layouts",
    "node-scheduling": "components.nodes.node_scheduling",
    "operator-labels": "components.platforms.gpu_operator.operator_labels",
    "presence": "components.release.presence",
    "reboot": "components.hosts.reboot.reboot",
    "rollout": "components.rollout.rollout",
    "runtime-class": "components.release.runtime_class",
    "tests": "components.validation.tests",
    "validation": "components.validation.validation",
}
"""Modules by program: a program is named as its module, and as what the state calls it."""


def run(arguments: list[str]) -> None:
    """Run the program that the first argument names; the rest are its own arguments."""
    module = PROGRAMS.get(arguments[0]) if arguments else None
    if module is None:
        command = arguments[0] if arguments else "nothing"
        sys.exit(
            f"program: found {command!r}; wanted: one of {', '.join(PROGRAMS)}; "
            "cure: update this project to the release that brought the stack up"
        )
    sys.argv = [module, *arguments[1:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    run(sys.argv[1:])
