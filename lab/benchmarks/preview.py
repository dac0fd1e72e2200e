"""Benchmark B6, preview: cost of this project's policy pack in a preview of 500 resources."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.commands.engine_home import engine_home
from gpu_cluster.commands.packs import RULES
from gpu_cluster_lab import toolchain
from lab.benchmarks.measure import Sample, ratio, timed
from lab.benchmarks.project import OWN, ROOT, pulumi

GOAL = 1.1
RESOURCES = 500
ROUNDS = 5
STACK = "preview"
TOOLS = ("pulumi", "pulumi-language-python", "pulumi-resource-kubernetes")

PROGRAM = '''
"""Every other resource a Pod with a GPU, the rest ConfigMaps; files in the place of a cluster."""
import pulumi
import pulumi_kubernetes as k8s

options = pulumi.ResourceOptions(
    provider=k8s.Provider("files", render_yaml_to_directory="rendered")
)
for index in range({resources}):
    metadata = {{"name": f"n-{{index}}", "namespace": "team"}}
    if index % 2:
        k8s.core.v1.ConfigMap(f"n-{{index}}", metadata=metadata, data={{"a": "b"}}, opts=options)
        continue
    k8s.core.v1.Pod(
        f"n-{{index}}",
        metadata=metadata,
        spec={{
            "restartPolicy": "Never",
            "tolerations": [{{"key": "nvidia.com/gpu", "operator": "Exists"}}],
            "containers": [
                {{
                    "name": "train",
                    "image": "registry.example.com/team/train:1.0",
                    "env": [{{"name": "EPOCHS", "value": "10"}}],
                    "resources": {{
                        "requests": {{"cpu": "4", "memory": "16Gi"}},
                        "limits": {{"memory": "16Gi", "nvidia.com/gpu": "1"}},
                    }},
                }}
            ],
        }},
        opts=options,
    )
'''
IDLE_PACK = '''
"""A pack of one policy that does nothing: what any pack costs."""
from pulumi_policy import EnforcementLevel, PolicyPack, ResourceValidationPolicy

PolicyPack(
    "idle",
    policies=[
        ResourceValidationPolicy(
            name="nothing",
            description="Reports nothing.",
            validate=lambda args, report: None,
            enforcement_level=EnforcementLevel.ADVISORY,
        )
    ],
)
'''
CLUSTER = {
    "version": "v1",
    "kubernetes": {"context": "none"},
    "platform": "device-plugin",
    "pools": [{"name": "a100", "nodes": ["gpu-[1-100]"], "gpusPerNode": 8}],
}


def _write_project(folder: Path) -> None:
    runtime = {"name": "python", "options": {"virtualenv": sys.prefix}}
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "pack", "runtime": runtime}))
    (folder / "__main__.py").write_text(PROGRAM.format(resources=RESOURCES))
    settings = {"config": {"gpu-cluster:cluster": CLUSTER}}
    (folder / f"Pulumi.{STACK}.yaml").write_text(yaml.safe_dump(settings))
    (folder / "state").mkdir()
    idle = folder / "idle"
    idle.mkdir()
    (idle / "PulumiPolicy.yaml").write_text(yaml.safe_dump({"name": "idle", "runtime": runtime}))
    (idle / "__main__.py").write_text(IDLE_PACK)


def _engine_environment(folder: Path) -> dict[str, str]:
    toolchain.ensure(*TOOLS)
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith(OWN)},
        **toolchain.environment(),
        "GPU_CLUSTER_HOME": str(ROOT),
        "GPU_CLUSTER_PYTHON": sys.executable,
        "PULUMI_BACKEND_URL": f"file://{folder}/state",
        "PULUMI_CONFIG_PASSPHRASE": "of a benchmark",
        "PULUMI_HOME": str(engine_home(toolchain.cache_dir())),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }


def run() -> dict[str, Any]:
    """Measure, print and return the times of previews with different policy packs.

    Returns:
        `met`: True if the median ratio of consecutive runs to an empty pack is at most `goal`;
            `none`, `idle`, `ours`: samples without a pack, with the empty pack and with this
            project's pack.
    """
    samples: dict[str, list[Sample]] = {"none": [], "idle": [], "ours": []}
    with tempfile.TemporaryDirectory(prefix="pack-") as place:
        folder = Path(place)
        _write_project(folder)
        environment = _engine_environment(folder)
        timed(["pulumi", "stack", "init", STACK, "--non-interactive"], folder, environment)
        packs = {"none": [], "idle": [str(folder / "idle")], "ours": [str(RULES)]}
        for _ in range(ROUNDS):
            for name, pack in packs.items():
                extra = [argument for path in pack for argument in ("--policy-pack", path)]
                samples[name].append(pulumi(folder, STACK, environment, "preview", *extra)[0])
    walls = {name: [sample.wall for sample in series] for name, series in samples.items()}
    for name, series in walls.items():
        middle = statistics.median(series)
        print(f"B6: preview of {RESOURCES} resources, pack {name}: {middle:.1f} s")
    cost = ratio(walls["ours"], walls["idle"])
    print(f"B6: our pack costs {cost:.2f} × a pack that does nothing (goal ≤ {GOAL})")
    return {"goal": GOAL, "resources": RESOURCES, "ratio": cost, **samples, "met": cost <= GOAL}
