"""Compare the objects of the real GPU Operator with those of the simulated GPU Operator.

All functions are pure. Only fields that the simulator sets are compared. Init containers, service
accounts, mounts and probes are not simulated, because nothing in the simulation would read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lab.real.operator.site import Seen

Json = dict[str, Any]
#: Accepted differences with their reasons. The run fails if one of them no longer occurs.
DIFFERENCES = {
    "nodes: nvidia.com/gpu.deploy.client": "a label of our pin, 26.7.0, that 24.3.0 doesn't know",
    "nvidia-device-plugin-daemonset: env DEVICE_LIST_STRATEGY": "with CDI 24.3.0 sets "
    "`envvar,cdi-annotations` over the policy's own; our pin `cdi-annotations,cdi-cri` under it",
    "nvidia-driver-daemonset: image": "the real one appends the nodes' operating system; simulated "
    "nodes have none",
    "nvidia-driver-daemonset: pod annotations": "a hint for kubectl; nobody asks simulated pods",
}


@dataclass(frozen=True)
class Verdict:
    """Comparison of one object of the real and the simulated operator under one setting.

    `differs` has pairs of values (simulated, real) by the path of the field.
    """

    setting: str
    operand: str
    differs: dict[str, tuple[Any, Any]]

    @property
    def agrees(self) -> bool:
        """Return True if the real and the simulated operator agree."""
        return not self.differs

    @property
    def listed(self) -> set[str]:
        """Return the names of accepted differences that occurred in this comparison."""
        return {f"{self.operand}: {path}" for path in self.differs} & DIFFERENCES.keys()

    @property
    def problems(self) -> list[str]:
        """Return errors for differences that are not in `DIFFERENCES`."""
        return [
            f"{self.setting}: {self.operand}: {path}: the simulated operator has {simulated!r}; "
            f"wanted: {real!r}, as the real one; cure: mend the simulator, or list the difference"
            for path, (simulated, real) in self.differs.items()
            if f"{self.operand}: {path}" not in DIFFERENCES
        ]


def unshown(shown_names: set[str]) -> list[str]:
    """Return errors for accepted differences that occurred under no setting."""
    return [
        f"{name}: both operators agree; wanted: the listed difference; cure: take it off the list"
        for name in DIFFERENCES
        if name not in shown_names
    ]


def verdicts(setting: str, simulated: Seen, real: Seen) -> Iterator[Verdict]:
    """Yield comparisons of the objects, of their order, of the nodes and of the policy's status."""
    for key in sorted(simulated.objects.keys() | real.objects.keys()):
        both = [
            said(key[0], operator_state.objects.get(key)) for operator_state in (simulated, real)
        ]
        yield Verdict(setting, key[1], differences(*both))
    yield Verdict(setting, "order", differences({"made": simulated.order}, {"made": real.order}))
    for node in sorted(real.nodes):
        both = [dict(operator_state.nodes[node]) for operator_state in (simulated, real)]
        yield Verdict(setting, "nodes", differences(*both))
    both = [_compared_status(operator_state.status) for operator_state in (simulated, real)]
    yield Verdict(setting, "status", differences(*both))


def said(kind: str, item: Json | None) -> Json:
    """Return the compared fields of a DaemonSet or RuntimeClass, by the field's path."""
    if item is None:
        return {"exists": False}
    owner = item["metadata"]["ownerReferences"][0]
    owned = {key: owner.get(key) for key in ("apiVersion", "kind", "name", "controller")}
    if kind == "RuntimeClass":
        return {"exists": True, "owner": owned, "handler": item["handler"]}
    spec = item["spec"]
    template, pod = spec["template"], spec["template"]["spec"]
    status = item["status"]
    return {
        "exists": True,
        "owner": owned,
        "labels": item["metadata"].get("labels"),
        "selector": spec["selector"],
        "updateStrategy": spec["updateStrategy"],
        "pod labels": template["metadata"].get("labels"),
        "pod annotations": template["metadata"].get("annotations"),
        "nodeSelector": pod["nodeSelector"],
        "tolerations": pod.get("tolerations"),
        "priorityClassName": pod.get("priorityClassName"),
        "containers": [container["name"] for container in pod["containers"]],
        "config maps": sorted(
            volume["configMap"]["name"]
            for volume in pod.get("volumes") or []
            if not volume.get("configMap", {}).get("name", "-entrypoint").endswith("-entrypoint")
        ),
        "wanted pods": status["desiredNumberScheduled"],
        "ready pods": status.get("numberReady", 0),
        **_compared_container(pod["containers"][0]),
    }


def _compared_container(container: Json) -> Json:
    return {
        "image": container["image"],
        "resources": container.get("resources") or {},
        **{f"env {item['name']}": item.get("value") for item in container.get("env") or []},
    }


def differences(simulated: Json, real: Json) -> dict[str, tuple[Any, Any]]:
    """Return pairs of differing values (simulated, real), by the path of the field.

    Environment variables that the simulator doesn't set are ignored.
    """
    return {
        key: (simulated.get(key), real.get(key))
        for key in sorted(simulated.keys() | real.keys())
        if simulated.get(key) != real.get(key) and (key in simulated or not key.startswith("env "))
    }


def _compared_status(status: Json) -> Json:
    conditions = {
        f"condition {item['type']}": (item["status"], item["reason"])
        for item in status["conditions"]
    }
    return {"state": status["state"], "namespace": status["namespace"], **conditions}
