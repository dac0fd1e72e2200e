"""Annotations and labels by which simulated objects are recognised.

They are listed in `docs/reference/commands.md`: tables, outputs and reports recognise simulated
objects by these marks.
"""

from __future__ import annotations

#: Annotation of nodes that kwok manages (kwok v0.8.0, "Manage Nodes and Pods").
FAKE_NODE = "kwok.x-k8s.io/node"

PREFIX = "simulator.gpu-cluster"

#: Node annotation: how the simulator checks that the node is prepared. `host` checks the files of
#: the node's SSH host; `assumed` always passes.
PREPARED = f"{PREFIX}/prepared"
#: Node annotation: name of the SSH host that simulates the node's machine.
HOST = f"{PREFIX}/host"
#: Node annotation: number of simulated GPUs.
GPUS = f"{PREFIX}/gpus"
#: Node annotation: MIG devices of each GPU, such as `1g.5gb=7`, separated by commas.
MIG = f"{PREFIX}/mig"
#: Node annotation: simulated faults, separated by commas.
FAULT = f"{PREFIX}/fault"
#: Node annotation: the faults in the hardware file. If the file changes them, `FAULT` is set to the
#: new value.
DECLARED_FAULT = f"{PREFIX}/declared-fault"
#: Node annotation: why the node advertises fewer GPUs than it has. Only the simulator's controller
#: sets it.
FAULT_MESSAGE = f"{PREFIX}/fault-message"
#: Node annotation: labels that the simulator set, as JSON, so that outdated labels can be removed.
DECLARED = f"{PREFIX}/declared"

#: Node annotation: the node has no driver until an installer pod installs a driver.
DRIVER_WANTED = f"{PREFIX}/driver-wanted"
#: Node annotation: version of the driver that an installer pod loaded. Only the simulator's
#: controller sets it.
DRIVER_LOADED = f"{PREFIX}/driver-loaded"

#: Node annotation: the simulated Node Feature Discovery has found GPUs on the node.
DISCOVERED = "simulator.gpu-cluster/discovered"
#: Node annotation: labels and taints that the simulated Node Feature Discovery set, as JSON.
RULED = f"{PREFIX}/ruled"

#: Pod annotation: decision of the simulator's controller about the pod, which kwok's Stages read.
OUTCOME = f"{PREFIX}/outcome"
#: Pod annotation: error message of the component that fails in the pod.
MESSAGE = f"{PREFIX}/message"

#: Annotation of DaemonSets and ResourceSlices that the simulator created.
SIMULATED_OPERAND = f"{PREFIX}/simulated"

#: Extended resource that NVIDIA's device plugin advertises.
GPU = "nvidia.com/gpu"

#: Label of validation pods; its value is the pool's name.
VALIDATION = "gpu-cluster/validation"

#: Annotation of pods of user-defined validation tests; its value is the test's name.
TEST = "gpu-cluster/test"

#: First line of each simulated log.
SIMULATED = "[simulated: no GPU ran this]"
