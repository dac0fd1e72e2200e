"""Checks of real nodes on which `nvidia-ctk` overwrites this project's containerd configuration."""

from __future__ import annotations

from gpu_cluster_lab.simulator import marks
from lab.real import objects
from lab.real.facts import Fact, require, seen_by
from lab.real.lab import GPUS, REAL, Lab
from lab.real.node import Node

NODE = REAL[1]
DROP_IN = "/etc/containerd/conf.d/99-nvidia.toml"
#: Command that NVIDIA's installation guide recommends (NVIDIA Container Toolkit 1.20.0,
#: cmd/nvidia-ctk/runtime).
CONFIGURE = "nvidia-ctk --quiet runtime configure --runtime=containerd"
APPLY = "sh /root/runtime.sh apply"


def _drop_in(node: Node) -> str:
    return node.run(f"sha256sum {DROP_IN}").split()[0]


def _count_seen_gpus(lab: Lab) -> int:
    """Return the number of GPU device nodes in a container that requests one GPU."""
    (seen,) = seen_by(lab, objects.gpu_pod("configured", NODE, (1,), "hold"))
    lab.delete("configured")
    return len(seen["nodes"])


def _by_tool(options: str, count: int) -> Fact:
    def check(lab: Lab) -> None:
        node = lab.nodes[NODE]
        # Wait for the device plugin, which may have been restarted just before.
        lab.wait_offered(NODE, marks.GPU, (GPUS, GPUS))
        before = _drop_in(node)
        node.run(f"{CONFIGURE} {options}; systemctl restart containerd")
        require("whether the tool wrote our file anew", _drop_in(node) != before, True)
        require("GPUs of a container that asks for one", _count_seen_gpus(lab), count)
        changed = node.run(APPLY).splitlines()[-1]
        require("what our preparation changed", changed != "changed=0", True)
        require("our file", _drop_in(node), before)
        require("what a second one changes", node.run(APPLY).splitlines()[-1], "changed=0")
        require("GPUs of a container that asks for one, then", _count_seen_gpus(lab), 1)

    written = " ".join(("nvidia-ctk runtime configure", options)).strip()
    return Fact(f"{written}: then {count} of 1 GPUs; our preparation puts it right", check)


FACTS = (_by_tool("", 0), _by_tool("--set-as-default", 1))
