"""From a plain mapping to a `Cluster`, or to every problem at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from components.hosts.settings.driver import Driver
from components.hosts.settings.host import Host
from components.hosts.settings.runtime import Runtime
from components.nodes.settings.pool import Pool
from components.platforms.device_plugin.settings import DevicePlugin
from components.platforms.gpu_operator.settings import GpuOperator
from components.platforms.settings import Platform
from components.settings.cluster import Cluster, with_derived_defaults
from components.settings.cross import SECTIONS, Parts
from components.settings.cross import problems as cross_problems
from components.settings.inventory import own_problems
from config.confidential import in_addresses
from config.explain import explain_all
from config.model import Model
from config.problem import ConfigError, Problem, problem, show

_WANTED = "a mapping with version, kubernetes, pools and platform"


def load(document: Mapping[str, Any]) -> Cluster:
    """The cluster that a document declares.

    `document` is the value of the structured key `gpu-cluster:cluster`, with camelCase keys, as
    `pulumi.Config().require_object("cluster")` returns it. Raises `ConfigError` with all
    problems, in the order of the document.
    """
    if not isinstance(document, Mapping):
        raise ConfigError([problem((), show(document), _WANTED, "see Pulumi.dev.yaml")])
    document = with_derived_defaults(document)
    exposed = list(in_addresses(document))
    try:
        cluster = Cluster.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        found = explain_all(Cluster, errors)
        if not any(item["type"] == "cross" for item in errors):
            found += cross_problems(_parts(document))
        found = own_problems([*found, *exposed])
        raise ConfigError(sorted(found, key=_DocumentOrder(document))) from None
    if exposed:
        raise ConfigError(sorted(exposed, key=_DocumentOrder(document)))
    return cluster


def _parts(document: Mapping[str, Any]) -> Parts:
    """The parts that are valid on their own, for the rules between parts."""
    pools = dict(_valid(Pool, document.get("pools")))
    hosts = dict(_valid(Host, document.get("hosts")))
    driver = _one(Driver, document.get("driver", {}))
    platform = document.get("platform")
    declared = document.get("pools")
    return Parts(
        pools=pools,
        hosts=hosts,
        platform=Platform(platform) if platform in tuple(Platform) else None,
        driver=driver,
        runtime=_one(Runtime, document.get("runtime", {})),
        device_plugin=_one(DevicePlugin, document.get("devicePlugin", {})),
        gpu_operator=_one(GpuOperator, document.get("gpuOperator", {})),
        given=frozenset(document),
        complete=isinstance(declared, list | tuple) and len(pools) == len(declared),
        sections={
            name: section
            for name, model in SECTIONS.items()
            if (section := _one(model, document.get(to_camel(name), {}))) is not None
        },
    )


M = TypeVar("M", bound=Model)


def _valid(model: type[M], items: object) -> Iterator[tuple[int, M]]:
    for index, item in enumerate(items if isinstance(items, list | tuple) else ()):
        if (valid := _one(model, item)) is not None:
            yield index, valid


def _one(model: type[M], item: object) -> M | None:
    try:
        return model.model_validate(item, by_alias=True, by_name=False)
    except ValidationError:
        return None


class _DocumentOrder:
    """A sort key: as the document is written, what is missing last in its mapping."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def __call__(self, found: Problem) -> tuple[int, ...]:
        position: list[int] = []
        value: Any = self._document
        for step in found.location:
            if isinstance(step, str) and isinstance(value, Mapping):
                keys = list(value)
                position.append(keys.index(step) if step in value else len(keys))
                value = value.get(step)
            elif isinstance(step, int) and isinstance(value, list | tuple):
                position.append(step)
                value = value[step] if step < len(value) else None
        return tuple(position)
