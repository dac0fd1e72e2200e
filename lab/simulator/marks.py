"""Names by which the simulator marks what it makes, and knows what it must act on.

They are listed in ``docs/commands.md``: tables, outputs and reports recognise
what is simulated by them.
"""

from __future__ import annotations

#: kwok manages a node that carries this annotation (kwok v0.8.0, "Manage Nodes and Pods").
FAKE_NODE = "kwok.x-k8s.io/node"

PREFIX = "simulator.gpu-cluster"

#: On a node: how its preparation is judged, ``host`` (files of an SSH host) or ``assumed``.
PREPARED = f"{PREFIX}/prepared"
#: On a node: name of the SSH host that plays it.
HOST = f"{PREFIX}/host"
#: On a node: GPUs that it would have, a whole number.
GPUS = f"{PREFIX}/gpus"
#: On a node: MIG devices of each of its GPUs, such as ``1g.5gb=7``, separated by commas.
MIG = f"{PREFIX}/mig"
#: On a node: faults, one or several separated by commas.
FAULT = f"{PREFIX}/fault"
#: On a node: the faults of its hardware file, set as `FAULT` whenever the file changes them.
DECLARED_FAULT = f"{PREFIX}/declared-fault"
#: On a node: why it offers fewer GPUs than it has; set by the controller, never by a person.
FAULT_MESSAGE = f"{PREFIX}/fault-message"
#: On a node: labels that the simulator gave it, as JSON, so that stale ones can be removed.
DECLARED = f"{PREFIX}/declared"

#: On a node: it has no driver until an installer's pod has brought one.
DRIVER_WANTED = f"{PREFIX}/driver-wanted"
#: On a node: version of the driver that an installer's pod loaded; set by the controller.
DRIVER_LOADED = f"{PREFIX}/driver-loaded"

#: On a node: the simulated Node Feature Discovery found its GPUs.
DISCOVERED = "simulator.gpu-cluster/discovered"
#: On a node: labels and taints that the simulated Node Feature Discovery set, as JSON.
RULED = f"{PREFIX}/ruled"

#: On a pod: what the controller decided, read by the kwok stages.
OUTCOME = f"{PREFIX}/outcome"
#: On a pod: the message of the component that fails.
MESSAGE = f"{PREFIX}/message"

#: On a DaemonSet or a ResourceSlice: made by the simulator.
SIMULATED_OPERAND = f"{PREFIX}/simulated"

#: The resource that the device plugin advertises.
GPU = "nvidia.com/gpu"

#: Label of validation pods; its value is the pool's name.
VALIDATION = "gpu-cluster/validation"

#: Annotation of the pods of a stack's own tests; its value is the test's name.
TEST = "gpu-cluster/test"

#: First line of each simulated log.
SIMULATED = "[simulated: no GPU ran this]"
