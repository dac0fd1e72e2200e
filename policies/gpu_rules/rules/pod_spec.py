"""Find the pod in a manifest, and its containers with their resources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ..kube.pod_resources import ContainerRole, init_container_role
from ..kube.quantity import Quantity, QuantityError, parse
from .unknown import UNKNOWN, Unknown, at, mapping, sequence, text

# Path of the pod template in each kind: kubernetes v1.34.4 pkg/apis/{core,apps,batch}/types.go.
_TEMPLATE: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
_GROUPS: Final[Mapping[str, frozenset[str]]] = {
    "Pod": frozenset({""}),
    "PodTemplate": frozenset({""}),
    "ReplicationController": frozenset({""}),
    "Deployment": frozenset({"apps", "extensions"}),
    "ReplicaSet": frozenset({"apps", "extensions"}),
    "StatefulSet": frozenset({"apps"}),
    "DaemonSet": frozenset({"apps", "extensions"}),
    "Job": frozenset({"batch"}),
    "CronJob": frozenset({"batch"}),
}

_FIELD: Final = re.compile(r"spec\.([A-Za-z]+)")

# Maximum number of characters of an invalid quantity that a message shows.
_SHOWN: Final = 20


HAVE_RESOURCES: Final = frozenset(ContainerRole) - {ContainerRole.EPHEMERAL}
"""Roles of the containers that can have resources."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One entry of `requests` or `limits`.

    Attributes:
        name: Name of the resource.
        path: Path of the entry in the manifest.
        amount: The quantity, `UNKNOWN`, or None if the API server would not accept the value.
        error: The reason, if `amount` is None.
    """

    name: str
    path: str
    amount: Quantity | Unknown | None
    error: str = ""

    @property
    def quantity(self) -> Quantity | None:
        """Return the amount if it is known and valid, else None."""
        return self.amount if isinstance(self.amount, Quantity) else None


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod.

    Attributes:
        name: Name of the container, or `#` and its index.
        path: Path of the container in the manifest.
        role: Whether it is an app, init, sidecar or ephemeral container.
        spec: The container as plain data.
        requests: Requests by the resource's name.
        limits: Limits by the resource's name.
        requests_known: False if the whole map of requests is unknown.
        limits_known: False if the whole map of limits is unknown.
    """

    name: str
    path: str
    role: ContainerRole
    spec: Mapping[str, object]
    requests: Mapping[str, Resource]
    limits: Mapping[str, Resource]
    requests_known: bool
    limits_known: bool

    def effective(self, name: str) -> Resource | None:
        """Return the request that the scheduler sees; a limit alone is also the request.

        SetDefaults_Pod (kubernetes v1.34.4 pkg/apis/core/v1/defaults.go:167) copies limits into
        requests when a pod is created. In a pod template, this has not happened yet.
        """
        return self.requests.get(name) or self.limits.get(name)

    @property
    def resource_names(self) -> set[str]:
        """Return the names of all resources in requests and limits."""
        return self.requests.keys() | self.limits.keys()

    @property
    def asked_names(self) -> frozenset[str]:
        """Return the resources of which the container requests more than 0 or an unknown amount.

        An amount of 0 requests nothing: a LimitRange with the default 0 adds this amount to
        containers that name no GPUs. A limit counts only without a request.
        """
        return frozenset(
            name
            for name, resource in {**self.limits, **self.requests}.items()
            if resource.quantity is None or resource.quantity.milli != 0
        )


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod or a pod template.

    Attributes:
        path: Path of the object that has the pod's `metadata`; empty for a Pod.
        metadata: Metadata of the pod or template.
        spec: Spec of the pod.
        containers: All containers, with init and ephemeral containers.
        spec_path: Path of the spec; in custom kinds it is not always below `path`.
        inherited: Path of the mapping from which the pod inherits a field, by the field's name.
        copies: Minimum number of such pods at the same time, or None if it follows from the kind.
        loose: Whether this is a GPU request of a custom resource outside of any pod.
        whole: Whether the object has all fields of the pod, so that no other object adds fields.
    """

    path: str
    metadata: Mapping[str, object]
    spec: Mapping[str, object]
    containers: tuple[Container, ...]
    spec_path: str = "spec"
    inherited: Mapping[str, str] = field(default_factory=dict)
    copies: int | None = None
    loose: bool = False
    whole: bool = True

    @property
    def resource_containers(self) -> tuple[Container, ...]:
        """Return the containers that can have resources, which ephemeral containers cannot."""
        return tuple(container for container in self.containers if container.role in HAVE_RESOURCES)

    @property
    def resources(self) -> Container:
        """Return the resources of the pod as a whole, as those of a container without a name."""
        return replace(container_at(self.spec, self.spec_path), name="")

    def under(self, key: str) -> str:
        """Return the path of a pod's field in the manifest."""
        name = _FIELD.match(key)
        if name and name[1] in self.inherited:
            return ".".join(filter(None, (self.inherited[name[1]], key.removeprefix("spec."))))
        if key == "spec" or key.startswith("spec."):
            return self.spec_path + key.removeprefix("spec")
        return f"{self.path}.{key}" if self.path else key


def template_path(api_version: str, kind: str) -> tuple[str, ...] | None:
    """Return the path of the pod in a kind of manifest, or None if the kind has no pod."""
    group = api_version.rpartition("/")[0]
    if kind not in _TEMPLATE or (api_version and group not in _GROUPS[kind]):
        return None
    return _TEMPLATE[kind]


def find_pod(manifest: Mapping[str, object]) -> Pod | None:
    """Return the pod of a manifest, or None if it has none or the whole pod is unknown."""
    path = template_path(text(manifest.get("apiVersion")), text(manifest.get("kind")))
    if path is None:
        return None
    template = mapping(at(manifest, *path))
    spec = mapping(template.get("spec"))
    place = ".".join((*path, "spec"))
    containers = tuple(_all_containers(spec, place))
    return Pod(".".join(path), mapping(template.get("metadata")), spec, containers, place)


def _all_containers(spec: Mapping[str, object], root: str) -> Iterator[Container]:
    yield from containers_of(spec, root, "initContainers", ContainerRole.INIT)
    yield from containers_of(spec, root, "containers", ContainerRole.APP)
    yield from containers_of(spec, root, "ephemeralContainers", ContainerRole.EPHEMERAL)


def containers_of(
    spec: Mapping[str, object], root: str, key: str, role: ContainerRole
) -> Iterator[Container]:
    """Yield the containers in one list of a pod's spec.

    Args:
        spec: Spec of the pod.
        root: Path of the spec.
        key: Field with the list.
        role: Role of the containers; an init container that is always restarted is a sidecar.
    """
    for index, raw in enumerate(sequence(spec.get(key))):
        container = mapping(raw)
        container_role = init_container_role(container) if role is ContainerRole.INIT else role
        yield container_at(container, f"{root}.{key}[{index}]", container_role, f"#{index}")


def container_at(
    spec: Mapping[str, object],
    path: str,
    role: ContainerRole = ContainerRole.APP,
    default_name: str = "#0",
) -> Container:
    """Return the container at a path; Tekton steps name their resources `computeResources`."""
    key = "resources" if "resources" in spec else "computeResources"
    requests, limits = at(spec, key, "requests"), at(spec, key, "limits")
    return Container(
        name=text(spec.get("name")) or default_name,
        path=path,
        role=role,
        spec=spec,
        requests=resource_list(requests, f"{path}.{key}.requests"),
        limits=resource_list(limits, f"{path}.{key}.limits"),
        requests_known=requests is not UNKNOWN,
        limits_known=limits is not UNKNOWN,
    )


def resource_list(value: object, path: str = "") -> dict[str, Resource]:
    """Return the entries of a map of resources by name, with quantities and paths below `path`."""
    entries = {}
    for name, raw in mapping(value).items():
        entry_path = f"{path}[{name}]"
        if isinstance(raw, Unknown):
            entries[name] = Resource(name, entry_path, UNKNOWN)
            continue
        try:
            entries[name] = Resource(name, entry_path, parse(raw))
        except QuantityError as error:
            entries[name] = Resource(name, entry_path, None, _error_text(raw, error))
    return entries


def _error_text(raw: object, error: QuantityError) -> str:
    """Return the error of an invalid quantity, without a long value, which may be secret."""
    if isinstance(raw, str) and len(raw) > _SHOWN:
        return f"str of {len(raw)} characters"
    return str(error)
