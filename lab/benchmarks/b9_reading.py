"""B9: the time of the verbs status, who and support-bundle, divided by kubectl's time.

All run against one API server with 1,000 nodes, and one round runs each once: the commands, and
`kubectl get nodes,pods -A -o json`. The nodes are as a finished `gpu-cluster up` leaves them, with
64 of them only partly validated because pods hold GPUs.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.commands.engine_home import engine_home
from gpu_cluster.commands.files import copy_project
from gpu_cluster.desired.pool import PoolScheduling
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.loading.stack_file import load_stack_file
from gpu_cluster.nodes import applied, record
from gpu_cluster_lab import toolchain
from gpu_rules.kube.gpu_resources import GPU
from lab.benchmarks.api_server import ApiServer, make_namespace, running
from lab.benchmarks.measure import RESULTS, BenchmarkError, Sample, ratio, timed, write
from lab.benchmarks.project import OWN

GOAL = 2.0
NODES, PODS = 1000, 4
"""Number of nodes, and number of pods on each."""
HELD = 64
"""Number of nodes with GPUs that no run has validated because pods hold them."""
GPUS = 8
ROUNDS = 3
STACK = "fleet"
PLUGIN = "nvidia-device-plugin"
COMMANDS = ("status", "who", "support-bundle")
OTHER = "kubectl get nodes,pods -A -o json"
AT_ONCE = 16
"""Number of objects that are created in parallel."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Site:
    """A copy of this project whose stack is a cluster of many nodes.

    Attributes:
        folder: Folder of the copy.
        environment: Environment variables of its commands.
        kubeconfig: Kubeconfig of the cluster.
    """

    folder: Path
    environment: dict[str, str]
    kubeconfig: Path

    @property
    def bundle(self) -> Path:
        """Return the path of the archive that `gpu-cluster support-bundle` writes."""
        return self.folder / "bundle.tar.gz"

    def run(self, command: str) -> Sample:
        """Run a command of this project and return its times; its output is thrown away."""
        line = f"make --silent {command} >output.json" if command != OTHER else (
            f"{OTHER} --kubeconfig '{self.kubeconfig}' >output.json"
        )  # fmt: skip
        sample, _ = timed(["sh", "-c", line], self.folder, self.environment)
        return sample

    @property
    def output(self) -> str:
        """Return the standard output of the last command."""
        return (self.folder / "output.json").read_text()


def declared(context: str) -> Json:
    """Return the settings of a stack with one pool of all nodes."""
    pool = {"name": "a100", "nodes": [f"gpu-[1-{NODES}]"], "gpusPerNode": GPUS}
    return {
        "version": "v1",
        "kubernetes": {"context": context},
        "platform": "device-plugin",
        "pools": [pool],
    }


def node(
    name: str, pool: PoolScheduling, pool_validation: PoolValidation, *, is_held: bool
) -> Json:
    """Return a Node as a finished run leaves it; `is_held`: pods hold two of its GPUs."""
    scheduled = pool.of_node(name)
    amounts = {"cpu": "128", "memory": "1Ti", "pods": "110", GPU: str(GPUS)}
    node_object: Json = {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **scheduled.labels},
            "annotations": dict(applied.annotation(pool, name)),
        },
        "spec": {"taints": [dict(taint) for taint in scheduled.taints]},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                {"type": kind, "status": "True" if kind == "Ready" else "False", "reason": kind}
                for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
            ],
            "images": [
                {"names": [f"registry.example.com/image-{number}:v1.2.3"], "sizeBytes": 10**9}
                for number in range(30)
            ],
            "nodeInfo": {
                "kernelVersion": "6.8.0-60-generic",
                "bootID": "b",
                "containerRuntimeVersion": "containerd://2.2.9",
                **dict.fromkeys(
                    ("architecture", "kubeProxyVersion", "kubeletVersion", "machineID",
                     "operatingSystem", "osImage", "systemUUID"), "x",
                ),
            },
        },
    }  # fmt: skip
    devices: dict[str, list[str]] = {f"GPU-{name}-{number}": [] for number in range(GPUS)}
    if is_held:
        devices = dict(list(devices.items())[:-2])
    validation_record = record.ValidationRecord(
        facts=record.facts(node_object, pool_validation, []),
        devices=devices,
        missing=GPUS - len(devices),
        holders="earlier" if is_held else "",
        manager=pool_validation.manager,
    )
    node_object["metadata"]["annotations"][record.RECORD] = record.encode(validation_record)
    return node_object


def pods(number: int, name: str) -> Iterator[tuple[str, Json]]:
    """Yield a node's pods with their namespaces: half of the platform, a quarter with all GPUs."""
    for index in range(PODS):
        space = PLUGIN if index % 2 else f"team-{number % 10}"
        container: Json = {
            "name": "main",
            "image": f"registry.example.com/image-{index}:v1.2.3",
            "args": [f"--option-{each}=value" for each in range(10)],
            "env": [{"name": f"OPTION_{each}", "value": "value"} for each in range(20)],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
        if index == 0:
            container["resources"] = {"limits": {GPU: str(GPUS)}}
        spec = {
            "nodeName": name,
            "tolerations": [{"operator": "Exists"}],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [container],
        }
        yield space, {"metadata": {"name": f"pod-{number}-{index}", "labels": {"app": "x"}},
                      "spec": spec}  # fmt: skip


def fill(server: ApiServer, file: Path) -> None:
    """Create all nodes and pods of the stack that a stack file declares."""
    desired = resolve(load_stack_file(file), STACK)
    (pool,), (pool_validation,) = desired.scheduling.pools, desired.validation.pools
    make_namespace(server.client, PLUGIN, LABELS)
    for number in range(10):
        make_namespace(server.client, f"team-{number}")
    names = [f"gpu-{number}" for number in range(1, NODES + 1)]
    nodes = (
        ("/api/v1/nodes", node(name, pool, pool_validation, is_held=number < HELD))
        for number, name in enumerate(names)
    )
    run = ((f"/api/v1/namespaces/{space}/pods", body) for number, name in enumerate(names)
           for space, body in pods(number, name))  # fmt: skip

    def create(new_object: tuple[str, Json]) -> None:
        path, body = new_object
        response = server.client.post(path, json=body)
        if response.status_code != 201:
            raise BenchmarkError(f"POST {path}: {response.status_code} {response.text}")

    with ThreadPoolExecutor(AT_ONCE) as workers:
        list(workers.map(create, chain(nodes, run)))


def site(server: ApiServer, folder: Path) -> Site:
    """Return a copy of the project with a stack on the cluster of an API server."""
    context = yaml.safe_load(server.kubeconfig.read_text())["current-context"]
    copy_project(folder)
    # Because requirements.lock has an old time stamp, `make` does not rebuild the environment.
    os.utime(folder / "requirements.lock", (0, 0))
    file = folder / f"Pulumi.{STACK}.yaml"
    file.write_text(yaml.safe_dump({"config": {"gpu-cluster:cluster": declared(context)}}))
    fill(server, file)
    (folder / "state").mkdir()
    benchmark_site = Site(
        folder,
        {
            **{key: value for key, value in os.environ.items() if not key.startswith(OWN)},
            **toolchain.environment(),
            "STACK": STACK,
            "JSON": "1",
            "BUNDLE": str(folder / "bundle.tar.gz"),
            "KUBECONFIG": str(server.kubeconfig),
            "PULUMI_BACKEND_URL": f"file://{folder}/state",
            "PULUMI_CONFIG_PASSPHRASE": "of a benchmark",
            "PULUMI_HOME": str(engine_home(toolchain.cache_dir())),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        },
        server.kubeconfig,
    )
    timed(
        ["pulumi", "stack", "init", STACK, "--non-interactive"], folder, benchmark_site.environment
    )
    return benchmark_site


def require_whole(command_site: Site, command: str) -> None:
    """Check that a command reported the whole cluster.

    Raises:
        BenchmarkError: The last output of the command lacks a part.
    """
    output = json.loads(command_site.output)
    whole: dict[str, Callable[[], bool]] = {
        "status": lambda: output["outcome"] != "failed" and output["gpus"]["after"] == NODES * GPUS,
        "who": lambda: len(output["nodes"]) == NODES and not output["uninspected"],
        "support-bundle": lambda: not any(entry["leftOut"] for entry in output["entries"]),
        OTHER: lambda: len(output["items"]) == NODES * (1 + PODS),
    }
    if not whole[command]():
        raise BenchmarkError(f"{command}: incomplete: {command_site.output[:2000]}")


def size(path: Path) -> str:
    """Return the size of an archive, and of what it contains, as text."""
    with tarfile.open(path) as tar:
        whole = sum(member.size for member in tar.getmembers())
    return f"{path.stat().st_size / 1e6:.1f} MB ({whole / 1e6:.1f} MB unpacked)"


def run() -> bool:
    """Measure and print the ratios; return whether each of them is at most `GOAL`."""
    # `make test-change` prints the figures of this run, never those of an earlier run.
    (RESULTS / "B9.json").unlink(missing_ok=True)
    if not shutil.which("kubectl"):
        raise BenchmarkError("B9: found no kubectl on PATH; wanted: one to compare with")
    samples: dict[str, list[Sample]] = {name: [] for name in (*COMMANDS, OTHER)}
    with running("reading") as server, tempfile.TemporaryDirectory(prefix="b9-") as place:
        benchmark_site = site(server, Path(place))
        for _ in range(ROUNDS):
            for name, series in samples.items():
                series.append(benchmark_site.run(name))
                require_whole(benchmark_site, name)
        archive = size(benchmark_site.bundle)
    walls = {name: [sample.wall for sample in series] for name, series in samples.items()}
    cpus = {name: [sample.cpu for sample in series] for name, series in samples.items()}
    ratios = {name: ratio(walls[name], walls[OTHER]) for name in COMMANDS}
    size_text = f"{NODES} nodes, {NODES * PODS} pods"
    print(f"B9: {OTHER}: {statistics.median(walls[OTHER]):.1f} s ({size_text})")
    for name in COMMANDS:
        print(
            f"B9: make {name}: {statistics.median(walls[name]):.1f} s, {ratios[name]:.2f} × "
            f"kubectl (goal ≤ {GOAL}), {ratio(cpus[name], cpus[OTHER]):.2f} × its processor time"
        )
    print(f"B9: the archive of gpu-cluster support-bundle has {archive}")
    met = all(each <= GOAL for each in ratios.values())
    write("B9", {"goal": GOAL, "nodes": NODES, "pods": NODES * PODS, "ratios": ratios,
                 "samples": samples, "met": met})  # fmt: skip
    return met
