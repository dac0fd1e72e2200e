"""Remove what the system wrote from an object that was read from a cluster.

Rules judge what an author wrote. In a running cluster, schedulers, controllers and admission
plugins add fields for which the rules would blame the author, such as the node of a pod.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from .unknown import at, mapping, sequence, text

SYSTEM_TOLERATIONS: Final = "node.kubernetes.io/"
"""Beginning of the keys of tolerations that the admission plugin DefaultTolerationSeconds and the
DaemonSet controller add to pods: kubernetes v1.34.4
plugin/pkg/admission/defaulttolerationseconds/admission.go and
pkg/controller/daemon/util/daemonset_util.go AddOrUpdateDaemonPodTolerations.
"""
ASSIGNED: Final = (
    "^tencent[.]com/(predicate-|gpu-assigned)|"
    "^hami[.]io/(bind-(phase|time)$|vgpu-(node|time)$|.*(-to-allocate|-allocated|-allocations)$)"
)
"""Pattern of the annotations that schedulers write when they choose a pod's node and GPUs: tkestack
gpu-admission pkg/predicate/gpu_predicate.go; Project-HAMi HAMi 4707fb02 pkg/util/types.go and
pkg/device.
"""


def as_submitted(manifest: Mapping[str, object]) -> Mapping[str, object]:
    """Return an object that was read from a cluster without what the system wrote after its author.

    That is the status of all objects, and of pods the node that the scheduler chose
    (`spec.nodeName`), tolerations of node conditions, and annotations by which schedulers assign
    GPUs. The argument is not changed.
    """
    submitted: dict[str, Any] = {key: manifest[key] for key in manifest if key != "status"}
    if manifest.get("kind") != "Pod" or manifest.get("apiVersion") != "v1":
        return submitted
    spec = {**mapping(manifest.get("spec"))}
    spec.pop("nodeName", None)
    if tolerations := sequence(spec.get("tolerations")):
        spec["tolerations"] = [
            toleration
            for toleration in tolerations
            if not text(at(toleration, "key")).startswith(SYSTEM_TOLERATIONS)
        ]
    metadata = {**mapping(manifest.get("metadata"))}
    if annotations := mapping(metadata.get("annotations")):
        metadata["annotations"] = {
            key: value for key, value in annotations.items() if not re.search(ASSIGNED, key)
        }
    return {**submitted, "metadata": metadata, "spec": spec}
