"""Programs that local Pulumi Commands run on the engineer's machine, by permanent names.

The Pulumi state keeps a Command's delete line until the resource is deleted, so every program name
must work in all later releases. A program's name, which is in the state, is also the name of its
module: a module may move to another folder, but must not be renamed.

A program runs as `gpu-cluster-program NAME ACTION`. It reads JSON on standard input and prints
JSON on standard output. On failure it prints a readable error and exits with code 1. The context
comes from the request. The kubeconfig comes from the environment or from the request, so that the
state contains no file path of the engineer's machine.
"""

from __future__ import annotations

import runpy
import sys

PROGRAMS = {
    "crds": "gpu_cluster.release.crds",
    "driver-daemonset": "gpu_cluster.driver_daemonset.driver_daemonset",
    "kubeconfig": "gpu_cluster.hosts.kubeadm.kubeconfig",
    "mig-layouts": "gpu_cluster.rollout.mig_layouts",
    "node-scheduling": "gpu_cluster.nodes.node_scheduling",
    "operator-labels": "gpu_cluster.platforms.gpu_operator.operator_labels",
    "presence": "gpu_cluster.release.presence",
    "reboot": "gpu_cluster.hosts.reboot.reboot",
    "rollout": "gpu_cluster.rollout.rollout",
    "runtime-class": "gpu_cluster.release.runtime_class",
    "tests": "gpu_cluster.validation.tests",
    "validation": "gpu_cluster.validation.validation",
}
"""Python modules of the programs, by program name."""


def main() -> None:
    """Run the program that the command line names, as the installed `gpu-cluster-program`."""
    run(sys.argv[1:])


def run(arguments: list[str]) -> None:
    """Run the program that the first argument names, with the remaining arguments."""
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
    main()
