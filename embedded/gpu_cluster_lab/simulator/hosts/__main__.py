"""Print the host key of a simulated SSH host, list the hosts of a cluster, or remove them."""

from __future__ import annotations

import argparse

from gpu_cluster_lab.simulator.hosts.keys import host_public_key
from gpu_cluster_lab.simulator.hosts.lifecycle import down, status


def main() -> None:
    """Run the command that the command line names: `pubkey`, `status` or `down`."""
    parser = argparse.ArgumentParser(
        prog="python -m gpu_cluster_lab.simulator.hosts", description=__doc__
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, help_text in (
        ("pubkey", "the host's name"),
        ("status", "the embedded cluster's name"),
        ("down", "the embedded cluster's name"),
    ):
        verbs.add_parser(verb).add_argument("name", help=help_text)
    arguments = parser.parse_args()
    if arguments.verb == "pubkey":
        print(host_public_key(arguments.name))
    elif arguments.verb == "down":
        down(arguments.name)
    else:
        for host in status(arguments.name):
            state = f"running, pid {host.pid}" if host.running else "stopped"
            print(f"{host.name}\t{host.address}:{host.port}\t{host.mode}\t{state}")


if __name__ == "__main__":
    main()
