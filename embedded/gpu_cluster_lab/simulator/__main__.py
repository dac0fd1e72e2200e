"""Start, stop and inspect the embedded cluster, or inject faults into its nodes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpu_cluster_lab import simulator
from gpu_cluster_lab.simulator import faults, hosts
from gpu_cluster_lab.simulator.hardware import load_hardware
from gpu_rules.faults import ConfigError


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line of `python -m gpu_cluster_lab.simulator`."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", default="dev", help="the cluster's name (default: dev)")
    main = argparse.ArgumentParser(prog="python -m gpu_cluster_lab.simulator", description=__doc__)
    commands = main.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", parents=[common], help="start what is missing")
    up.add_argument("--hardware", type=Path, help="default: lab/hardware/<name>.yaml")
    ended = "stop the cluster and its hosts, remove their files"
    commands.add_parser("down", parents=[common], help=ended)
    commands.add_parser("status", parents=[common], help="what runs")
    fault = commands.add_parser("fault", parents=[common], help="set a node's faults")
    fault.add_argument("node")
    fault.add_argument("fault", nargs="*", help=f"{', '.join(faults.NAMES)}; none heals the node")
    return main


def main(arguments: list[str] | None = None) -> int:
    """Run one command of the command line.

    Return 1 if the command fails, or if `status` finds a stopped component.
    """
    options = parser().parse_args(arguments)
    try:
        if options.command == "up":
            path = options.hardware or Path("lab", "hardware", f"{options.name}.yaml")
            embedded = simulator.start(options.name, load_hardware(path))
            print(f"KUBECONFIG={embedded.kubeconfig}")
            print(f"context {embedded.context}, {embedded.nodes} simulated nodes")
        elif options.command == "down":
            simulator.down(options.name)
            hosts.down(options.name)
        elif options.command == "fault":
            simulator.set_fault(options.name, options.node, *options.fault)
        else:
            return _print_status(simulator.status(options.name))
    except (simulator.SimulatorError, hosts.HostError, ConfigError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _print_status(status: simulator.Status) -> int:
    for component, pid in status.running.items():
        print(f"{component:26} running, pid {pid}")
    for component in status.missing:
        print(f"{component:26} not running")
    print(f"{'ready' if status.ready else 'not ready'}, {status.nodes} simulated nodes")
    return 0 if status.ready else 1


if __name__ == "__main__":
    sys.exit(main())
