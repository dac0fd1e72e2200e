"""Sixty edits of stack files, each with the observed state of its cluster and hosts.

`told.yaml` in the same folder has the preview text that is expected for each edit. After a change
of the wording run `venv/bin/python -m tests.components.change.edits`, which writes that file again,
and read the diff as a user would.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.change.document import ClusterChange, Document, conclusion, stopping
from gpu_cluster.change.edits import edits, recorded_settings
from gpu_cluster.change.text import lines
from gpu_cluster.host_facts import HostFacts
from tests.components.change.world import DRIVER, HOST_KEY, World, base, pod

Json = dict[str, Any]
TOLD = Path(__file__).with_name("told.yaml")
BARE = pod("train", "gpu-1", 4)
BARE["metadata"]["ownerReferences"] = []
TRAINING = (pod("train-0", "gpu-1", 8), pod("train-1", "gpu-2", 8), pod("ops/web", "gpu-3"))


@dataclass(frozen=True)
class Edit:
    """An edit of a stack file.

    Attributes:
        before: The stack file that was applied.
        after: The stack file now.
        meets: Function that changes the observed state, to simulate changes by other people.
    """

    before: Json
    after: Json
    meets: Callable[[World], None] = lambda world: None

    @property
    def world(self) -> World:
        """Return the observed state of cluster and hosts."""
        world = World.of(self.before)
        self.meets(world)
        return world

    @cached_property
    def change(self) -> ClusterChange:
        """Return what a run with the new stack file would change."""
        return self.world.change(self.after)

    @property
    def text(self) -> str:
        """Return the text that the terminal shows for the edit."""
        return "\n".join(lines(self.change))


def _new(number: int) -> Callable[[World], None]:
    def meets(world: World) -> None:
        for each in range(5, 5 + number):
            world.join(f"gpu-{each}")

    return meets


def _pods(*pods: Json) -> Callable[[World], None]:
    return lambda world: world.pods.extend(copy.deepcopy(pods))


def _on(name: str, change: Callable[[Json], Any]) -> Callable[[World], None]:
    return lambda world: change(world.nodes[name])


def _host(name: str, **facts: Any) -> Callable[[World], None]:
    def meets(world: World) -> None:
        world.hosts[name] = replace(world.hosts[name], **facts)

    return meets


def _bare(name: str) -> Callable[[World], None]:
    return lambda world: world.hosts.update({name: HostFacts(driver=DRIVER, containerd="2.3.1")})


def _all(*each: Callable[[World], None]) -> Callable[[World], None]:
    def meets(world: World) -> None:
        for one in each:
            one(world)

    return meets


def _base(**sections: Any) -> Json:
    return {**base(), **sections}


def _pool(document: Json | None = None, **changes: Any) -> Json:
    made = copy.deepcopy(document or base())
    made["pools"][0] |= changes
    return made


def _pools(*pools: Json, **sections: Any) -> Json:
    return _base(pools=list(pools), **sections)


A100: Json = {"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8}
TWO = _pools(
    {**A100, "nodes": ["gpu-[1-2]"]}, {"name": "l4", "nodes": ["gpu-[3-4]"], "gpusPerNode": 4}
)
BIG = _pools({"name": "h100", "nodes": ["h100-[001-500]"], "gpusPerNode": 8}, hosts=[])
RULED = _pools(
    {"name": "l4", "selector": {"example.com/type": "g6"}, "count": 3, "gpusPerNode": 4}, hosts=[]
)
OPERATOR = _base(
    platform="gpu-operator", driver={"source": "operator", "version": "595.91.07"}, hosts=[]
)
MIG = _pool(OPERATOR, mig={"1g.5gb": 7})
PACKAGED = _base(driver={"source": "package", "version": "580.95.05"})
NEWER = {
    "driver": {"source": "package", "version": "595.91.07"},
    "reboot": {"when": "required"},
}
LABELS = {"nvidia.com/gpu": "true"}
GPU_TAINT = "nvidia.com/gpu=present:NoSchedule"


def _without_label(node: Json) -> None:
    del node["metadata"]["labels"]["nvidia.com/gpu"]


def _tainted(node: Json) -> None:
    node["spec"]["taints"] = []


def _unvalidated(node: Json) -> None:
    node["metadata"]["annotations"].pop("gpu-cluster/validation")


def _sick(node: Json) -> None:
    node["status"]["allocatable"]["nvidia.com/gpu"] = "7"


def _hosts(*names: str, **more: Any) -> list[Json]:
    return [
        {"name": n, "address": f"192.0.2.{n.rpartition('-')[2]}", "hostKey": HOST_KEY, **more}
        for n in names
    ]


def _sysctl(**values: str) -> Json:
    return {"sysctl": {name.replace("__", "."): value for name, value in values.items()}}


EDITS: dict[str, Edit] = {
    # GPUs and nodes of pools.
    "nothing": Edit(base(), base()),
    "half of the GPUs": Edit(base(), _pool(gpusPerNode=4)),
    "half of the GPUs, with pods that hold them": Edit(
        base(), _pool(gpusPerNode=4), _pods(*TRAINING)
    ),
    "more GPUs of each node": Edit(_pool(gpusPerNode=4), base()),
    "no GPUs any more": Edit(
        _base(hosts=[]), _pool(_base(hosts=[]), gpusPerNode=0, labels={}, taints=[])
    ),
    "a node fewer": Edit(base(), _pool(nodes=["gpu-[1-3]"])),
    "a node fewer, with a pod on it": Edit(
        base(), _pool(nodes=["gpu-[1-3]"]), _pods(pod("train-0", "gpu-4", 8))
    ),
    "a node fewer, with a pod without GPUs": Edit(
        base(), _pool(nodes=["gpu-[1-3]"]), _pods(pod("ops/web", "gpu-4"))
    ),
    "one node more": Edit(base(), _pool(nodes=["gpu-[1-5]"]), _new(1)),
    "ten nodes more": Edit(base(), _pool(nodes=["gpu-[1-14]"]), _new(10)),
    "a node exchanged": Edit(base(), _pool(nodes=["gpu-[1-3]", "gpu-5"]), _new(1)),
    "a renamed pool": Edit(base(), _pool(name="h100")),
    "a renamed pool with partitioned GPUs": Edit(MIG, _pool(MIG, name="h100"), _pods(*TRAINING)),
    "a renamed pool with another label": Edit(
        base(), _pool(name="h100", labels={**LABELS, "team": "ml"})
    ),
    "a renamed pool with fewer GPUs": Edit(base(), _pool(name="h100", gpusPerNode=4)),
    "a pool more": Edit(
        base(),
        _pools(A100, {"name": "l4", "nodes": ["gpu-[5-6]"], "gpusPerNode": 4}),
        _new(2),
    ),
    "a pool fewer": Edit(TWO, _pools({**A100, "nodes": ["gpu-[1-2]"]})),
    "a node moved to another pool": Edit(
        TWO,
        _pools(
            {**A100, "nodes": ["gpu-[1-3]"]}, {"name": "l4", "nodes": ["gpu-4"], "gpusPerNode": 4}
        ),
    ),
    "a pool split": Edit(
        base(),
        _pools(
            {**A100, "nodes": ["gpu-[1-2]"]},
            {"name": "b", "nodes": ["gpu-[3-4]"], "gpusPerNode": 8},
        ),
    ),
    "a sick GPU left out": Edit(base(), _pool(unhealthyDevices={"gpu-2": {"index": [3]}})),
    "a sick GPU back": Edit(_pool(unhealthyDevices={"gpu-2": {"index": [3]}}), base()),
    "a sick GPU back, and one that stays out": Edit(
        _pool(unhealthyDevices={"gpu-3": {"index": [2]}, "gpu-4": {"index": [0]}}),
        _pool(unhealthyDevices={"gpu-4": {"index": [0]}}),
    ),
    "another GPU of a node left out": Edit(
        _pool(unhealthyDevices={"gpu-3": {"index": [2]}, "gpu-4": {"index": [0]}}),
        _pool(unhealthyDevices={"gpu-3": {"index": [0]}, "gpu-4": {"index": [0]}}),
    ),
    "a node in maintenance": Edit(base(), _base(maintenance=["gpu-3"])),
    "a node back from maintenance": Edit(
        _base(maintenance=["gpu-3"]),
        base(),
        lambda world: world.nodes.update(World.of(base()).nodes),
    ),
    "five hundred nodes with half of the GPUs": Edit(
        BIG,
        _pool(BIG, gpusPerNode=4),
        _pods(*(pod(f"train-{n}", f"h100-{n:03}", 8) for n in range(1, 41))),
    ),
    "nodes by label, fewer GPUs": Edit(RULED, _pool(RULED, gpusPerNode=2)),
    # Labels and taints.
    "a new label": Edit(base(), _pool(labels={**LABELS, "team": "ml"})),
    "another value of a label": Edit(
        _pool(labels={**LABELS, "team": "ml"}), _pool(labels={**LABELS, "team": "infra"})
    ),
    "a label fewer": Edit(_pool(labels={**LABELS, "team": "ml"}), base()),
    "a label of one node": Edit(
        base(), _base(scheduling={"nodes": {"gpu-2": {"labels": {"team": "ml"}}}})
    ),
    "a new taint": Edit(base(), _pool(taints=[GPU_TAINT, "example.com/own=x:NoSchedule"])),
    "a new taint that evicts": Edit(
        base(), _pool(taints=[GPU_TAINT, "example.com/own=x:NoExecute"]), _pods(*TRAINING)
    ),
    "no taint": Edit(base(), _pool(taints=[])),
    # Drivers, kernels, engines.
    "the loaded driver from a package": Edit(
        base(), _base(driver={"source": "package", "version": DRIVER})
    ),
    "the loaded driver goes down": Edit(
        base(), {**PACKAGED, "reboot": {"when": "required"}}, _pods(*TRAINING)
    ),
    "the driver goes up": Edit(
        PACKAGED,
        _base(**NEWER),
        _pods(*TRAINING),
    ),
    "the driver goes up, two nodes at once": Edit(
        PACKAGED,
        _base(
            **NEWER,
            rollout={"maxUnavailable": 2, "evict": ["unmanaged", "empty-dir"]},
        ),
    ),
    "the operator's driver goes down": Edit(
        OPERATOR, {**OPERATOR, "driver": {"source": "operator", "version": "580.126.20"}}
    ),
    "another kernel": Edit(
        base(), _base(kernel={"release": "6.8.0-62-generic"}, reboot={"when": "required"})
    ),
    "devices by environment": Edit(
        base(), _base(runtime={"devicesByEnvironment": True}), _pods(*TRAINING)
    ),
    "devices by environment, with a pod that may not be evicted": Edit(
        base(), _base(runtime={"devicesByEnvironment": True}), _pods(BARE)
    ),
    "another default runtime": Edit(base(), _base(runtime={"defaultRuntime": "runc"})),
    "no CDI": Edit(base(), _base(runtime={"cdi": False})),
    # Hosts.
    "a kernel parameter": Edit(base(), _base(system=_sysctl(vm__max_map_count="262144"))),
    "another kernel parameter": Edit(
        _base(system=_sysctl(vm__max_map_count="262144")),
        _base(system=_sysctl(vm__max_map_count="524288")),
    ),
    "swap stays on": Edit(base(), _base(system={"swapOff": False})),
    "limits": Edit(base(), _base(system={"limits": {"nofile": 65536}})),
    "open ports": Edit(base(), _base(system={"firewall": "rules"})),
    "a package": Edit(base(), _base(packages={"install": ["pciutils"]})),
    "a host more": Edit(base(), _base(hosts=_hosts("gpu-1", "gpu-2", "gpu-3")), _bare("gpu-3")),
    "a host fewer": Edit(base(), _base(hosts=_hosts("gpu-1"))),
    "a host and its node fewer": Edit(
        base(),
        _base(
            hosts=_hosts("gpu-1"),
            pools=[{"name": "a100", "nodes": ["gpu-1", "gpu-[3-4]"], "gpusPerNode": 8}],
        ),
    ),
    "reboots allowed, and one is pending": Edit(
        base(), _base(reboot={"when": "required"}), _host("gpu-2", reboot=("kernel 6.8.0-62",))
    ),
    "only wider waves": Edit(base(), _base(rollout={"maxUnavailable": 2})),
    # The platform and the validation.
    "the GPU Operator": Edit(base(), _base(platform="gpu-operator"), _pods(*TRAINING)),
    "the GPU Operator with its toolkit": Edit(
        base(), _base(platform="gpu-operator", gpuOperator={"toolkit": True}), _pods(*TRAINING)
    ),
    "another namespace of the device plugin": Edit(
        base(), _base(devicePlugin={"namespace": "gpu-plugin"}), _pods(*TRAINING)
    ),
    "another namespace of an operator with drivers": Edit(
        OPERATOR, {**OPERATOR, "gpuOperator": {"namespace": "gpu"}}, _pods(*TRAINING)
    ),
    "DRA": Edit(base(), _base(platform="dra", runtime={"defaultRuntime": "runc"})),
    "an older chart": Edit(base(), _base(devicePlugin={"version": "0.19.2"})),
    "a newer chart": Edit(_base(devicePlugin={"version": "0.19.2"}), base()),
    "shared GPUs": Edit(
        base(),
        _base(
            devicePlugin={
                "config": {
                    "version": "v1",
                    "sharing": {
                        "timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}
                    },
                }
            }
        ),
    ),
    "partitioned GPUs": Edit(OPERATOR, MIG, _pods(*TRAINING)),
    "whole GPUs again": Edit(MIG, OPERATOR),
    "another image of the validation": Edit(
        base(), _base(validation={"image": "registry.example.com/sample:v2"})
    ),
    "a mirror of images": Edit(base(), _base(registry={"mirror": "mirror.example.com"})),
    # Changes that other people made.
    "a label removed by hand": Edit(base(), base(), _on("gpu-3", _without_label)),
    "a label removed by hand, and an edit": Edit(
        base(), _pool(labels={**LABELS, "team": "ml"}), _on("gpu-3", _without_label)
    ),
    "taints removed by hand, and half of the GPUs": Edit(
        base(), _pool(gpusPerNode=4), _all(_on("gpu-1", _tainted), _on("gpu-2", _tainted))
    ),
    "a file changed on a host": Edit(
        base(),
        base(),
        _host("gpu-1", drift={"prepare": ("/etc/sysctl.d/99-gpu-cluster.conf",)}),
    ),
    "a proof that is missing": Edit(base(), base(), _on("gpu-2", _unvalidated)),
    "a GPU that is gone": Edit(base(), base(), _on("gpu-2", _sick)),
    "a host that does not answer": Edit(
        base(), _pool(gpusPerNode=4), _host("gpu-2", error="no answer within 15 s")
    ),
    "a node cordoned by others, and another driver": Edit(
        PACKAGED,
        _base(**NEWER),
        _on("gpu-1", lambda node: node["spec"].update(unschedulable=True)),
    ),
    "hostile names": Edit(
        base(),
        _pool(nodes=["gpu-[1-3]"]),
        _pods(pod("::error::\x1b[2Jx/@everyone <img>", "gpu-4", 8)),
    ),
}


def document_of(name: str) -> Document:
    """Return the change document of the edit with this name."""
    change = EDITS[name].change
    outcome, cause = conclusion(stopping([change]), is_changed=change.is_changed)
    made = edits(recorded_settings(EDITS[name].before), EDITS[name].after)
    return Document(stack="dev", outcome=outcome, edits=made, clusters=(change,), cause=cause)


def texts() -> Iterator[tuple[str, str]]:
    """Yield the name and the current preview text of each edit."""
    for name, edit in EDITS.items():
        yield name, edit.text


def main() -> None:
    """Write the preview texts of all edits to `told.yaml`."""
    yaml.add_representer(
        str,
        lambda dumper, text: dumper.represent_scalar(
            "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
        ),
    )
    text = yaml.dump(dict(texts()), sort_keys=False, allow_unicode=True, width=200)
    TOLD.write_text(f"# What a preview says about each edit of edits.py.\n{text}")


if __name__ == "__main__":
    main()
