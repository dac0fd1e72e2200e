"""All growths in one run: hosts and pools judged, pools and nodes deployed, pods read."""

from __future__ import annotations

import json

from lab.benchmarks import b10_sizes, b12_pools, b13_sizes
from lab.benchmarks.measure import RESULTS

GOAL = 1.1


def run() -> bool:
    """Run the benchmarks of sizes and print one line of all; return True if all goals are met."""
    met = [benchmark.run() for benchmark in (b10_sizes, b12_pools, b13_sizes)]
    results = {
        name: json.loads((RESULTS / f"{name}.json").read_text()) for name in ("B10", "B12", "B13")
    }
    growths = [*results["B10"]["growths"].values(), *results["B13"]["growths"].values()]
    memory, costs = results["B13"]["memory"], results["B12"]
    print(
        f"scale: {sum(growth <= GOAL for growth in growths)} of {len(growths)} growths at most "
        f"{GOAL}, who {memory['who']:.0f} MB and status {memory['status']:.0f} MB at "
        f"{b13_sizes.SIZES[-1] * b13_sizes.PODS} pods, a pool costs {costs['pool']:.1f} nodes, "
        f"{costs['real']:.0f} requests a node"
    )
    return all(met)
