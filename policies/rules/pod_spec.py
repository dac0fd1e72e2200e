"""Finding the pod of a manifest, and its containers with their resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from .quantity import Quantity, QuantityError, parse
from .unknown import UNKNOWN, Unknown, at, mapping, sequence, text

# Where the pod template of each kind lies; kubernetes v1.34.4 pkg/apis/{core,apps,batch}/types.go.
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

_SHOWN: Final = 20  # characters of a value that isn't a quantity


class ContainerRole(StrEnum):
    """What a container is in its pod."""

    APP = "container"
    INIT = "init container"
    SIDECAR = "sidecar"
    EPHEMERAL = "ephemeral container"


@dataclass(frozen=True, slots=True)
class Resource:
    """One entry of `requests` or `limits`.

    `amount` is `None` where the API server could not read the value, with the reason in `error`.
    """

    name: str
    path: str
    amount: Quantity | Unknown | None
    error: str = ""

    @property
    def quantity(self) -> Quantity | None:
        """The amount where it is known and readable."""
        return self.amount if isinstance(self.amount, Quantity) else None


@dataclass(frozen=True, slots=True)
class Container:
    """A container. `requests_known` and `limits_known` are false where the whole map is unknown."""

    name: str
    path: str
    role: ContainerRole
    spec: Mapping[str, object]
    requests: Mapping[str, Resource]
    limits: Mapping[str, Resource]
    requests_known: bool
    limits_known: bool

    def effective(self, name: str) -> Resource | None:
        """The request that the scheduler sees: a limit alone counts as the request too.

        SetDefaults_Pod (kubernetes v1.34.4 pkg/apis/core/v1/defaults.go:167) copies limits into
        requests for pods; templates get it when their pods are made.
        """
        return self.requests.get(name) or self.limits.get(name)

    @property
    def resource_names(self) -> frozenset[str]:
        """Every resource named under requests or limits."""
        return frozenset(self.requests) | frozenset(self.limits)

    @property
    def asked_names(self) -> frozenset[str]:
        """Every resource of which the container asks for more than 0, or for an unknown amount.

        0 asks for none: a LimitRange's default writes it into containers that name no GPUs.
        """
        return frozenset(
            name
            for listed in (self.requests, self.limits)
            for name, resource in listed.items()
            if resource.quantity is None or resource.quantity.milli != 0
        )


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod or a pod template. `path`: where its `metadata` lies, empty for a Pod.

    `spec_path`: where its spec lies, in custom kinds not always below `path`.
    """

    path: str
    metadata: Mapping[str, object]
    spec: Mapping[str, object]
    containers: tuple[Container, ...]
    spec_path: str = "spec"

    def under(self, key: str) -> str:
        """The path of a field of the pod."""
        if key == "spec" or key.startswith("spec."):
            return self.spec_path + key.removeprefix("spec")
        return f"{self.path}.{key}" if self.path else key


def template_path(api_version: str, kind: str) -> tuple[str, ...] | None:
    """Where the pod of a kind lies, `None` for kinds without one or of another API group."""
    group = api_version.rpartition("/")[0]
    if kind not in _TEMPLATE or (api_version and group not in _GROUPS[kind]):
        return None
    return _TEMPLATE[kind]


def find_pod(manifest: Mapping[str, object]) -> Pod | None:
    """The pod of a manifest, `None` where it has none or where all of it is unknown."""
    path = template_path(text(manifest.get("apiVersion")), text(manifest.get("kind")))
    if path is None:
        return None
    template = mapping(at(manifest, *path))
    spec = mapping(template.get("spec"))
    place = ".".join((*path, "spec"))
    containers = tuple(_containers(spec, place))
    return Pod(".".join(path), mapping(template.get("metadata")), spec, containers, place)


def pod_at(
    manifest: Mapping[str, object], path: tuple[str, ...], spec: Mapping[str, object]
) -> Pod:
    """The pod whose spec was found at a path of a custom object.

    The spec may stand around one `container`, as in the step of a workflow.
    """
    place, above = ".".join(path), path[:-1] if path[-1] == "spec" else path
    template = _inside(manifest, above)
    containers = tuple(_containers(spec, place))
    if one := mapping(spec.get("container")):
        containers += (_container(one, f"{place}.container", ContainerRole.APP, 0),)
    return Pod(".".join(above), mapping(template.get("metadata")), spec, containers, place)


def _inside(manifest: Mapping[str, object], path: tuple[str, ...]) -> Mapping[str, object]:
    """The mapping at a path whose steps may end with the index of a list."""
    value: object = manifest
    for step in path:
        name, *indices = step.split("[")
        value = mapping(value).get(name)
        for index in indices:
            value = sequence(value)[int(index.rstrip("]"))]
    return mapping(value)


def _containers(spec: Mapping[str, object], root: str) -> Iterator[Container]:
    for key, role in (
        ("initContainers", ContainerRole.INIT),
        ("containers", ContainerRole.APP),
        ("ephemeralContainers", ContainerRole.EPHEMERAL),
    ):
        for index, raw in enumerate(sequence(spec.get(key))):
            container = mapping(raw)
            if role is ContainerRole.INIT and container.get("restartPolicy") == "Always":
                yield _container(container, f"{root}.{key}[{index}]", ContainerRole.SIDECAR, index)
            else:
                yield _container(container, f"{root}.{key}[{index}]", role, index)


def _container(spec: Mapping[str, object], path: str, role: ContainerRole, index: int) -> Container:
    requests, limits = at(spec, "resources", "requests"), at(spec, "resources", "limits")
    return Container(
        name=text(spec.get("name")) or f"#{index}",
        path=path,
        role=role,
        spec=spec,
        requests=resource_list(requests, f"{path}.resources.requests"),
        limits=resource_list(limits, f"{path}.resources.limits"),
        requests_known=requests is not UNKNOWN,
        limits_known=limits is not UNKNOWN,
    )


def resource_list(value: object, path: str = "") -> dict[str, Resource]:
    """The entries of a map of resources, each with its quantity and its place under `path`."""
    entries = {}
    for name, raw in mapping(value).items():
        where = f"{path}[{name}]"
        if isinstance(raw, Unknown):
            entries[name] = Resource(name, where, UNKNOWN)
            continue
        try:
            entries[name] = Resource(name, where, parse(raw))
        except QuantityError as error:
            entries[name] = Resource(name, where, None, _shown(raw, error))
    return entries


def _shown(raw: object, error: QuantityError) -> str:
    """The reason with the value, or without it where it is long: it may be a secret."""
    if isinstance(raw, str) and len(raw) > _SHOWN:
        return f"str of {len(raw)} characters"
    return str(error)
