"""Desired validation: pools whose GPUs run a CUDA kernel, and user-defined tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_cluster.desired.host import Target
from gpu_cluster.desired.pool import Members
from gpu_cluster.kubernetes.labels import FIELD_MANAGERS
from gpu_cluster.platforms.base import Offer
from gpu_cluster.settings.registry import RegistrySettings

Json = dict[str, Any]

LEFT_OUT = "unhealthyDevices"
"""Name of the setting that says which GPUs a node leaves out."""
POOL = "gpu-cluster/validation"
"""Label of validation pods with the pool's name as its value."""


@dataclass(frozen=True, kw_only=True)
class Advertised(Members):
    """A pool of nodes that all advertise the same devices.

    Attributes:
        gpus: Number of GPUs of each node.
        offers: Extended resources that each node advertises.
        namespace: Namespace of the validation pods.
    """

    gpus: int
    offers: tuple[Offer, ...]
    namespace: str

    @property
    def resources(self) -> dict[str, int]:
        """Return the amount of each extended resource that a node advertises."""
        return {offer.resource: offer.count for offer in self.offers}

    @property
    def devices(self) -> int:
        """Return the number of GPUs or MIG devices of a node that must run a CUDA kernel."""
        return sum(offer.devices for offer in self.offers)

    @property
    def is_shared(self) -> bool:
        """Return True if several containers may get the same device."""
        return any(offer.count > offer.devices * offer.unit for offer in self.offers)

    @property
    def is_whole(self) -> bool:
        """Return True if each advertised device is a whole GPU that only one container gets."""
        return len(self.offers) == 1 and all(
            offer.devices == self.gpus and offer.count == offer.devices * offer.unit
            for offer in self.offers
        )


@dataclass(frozen=True, kw_only=True)
class PoolValidation(Advertised):
    """The validation of a pool.

    In the state of an earlier version, this is the request of a Command of one pool.

    Attributes:
        manager: Field manager of the pool's labels; the result that is recorded on a validated node
            contains this name.
        timeout_seconds: Seconds without progress of any node after which the validation ends.
        busy: Behavior for GPUs that other pods use: `defer`, `wait` or `fail`.
        settings: Settings that the validation depends on, by name; long values as digests.
        own: Values of `settings` for nodes whose hosts override the stack's settings, by node.
        spaces: Namespaces of the DaemonSets that provide GPUs, such as the device plugin.
        shared_spaces: Those of `spaces` in which others than the stack may write events.
        hosts: Connection data of the nodes' hosts, by node.
        pod: Fields that all validation pods share (`gpu_cluster.desired.pod_template.template`).
        private_key: SSH private key to log in to the hosts; empty if there is none.
    """

    manager: str
    timeout_seconds: int
    busy: str
    settings: Mapping[str, str]
    own: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    spaces: tuple[str, ...] = ()
    shared_spaces: tuple[str, ...] = ()
    hosts: Mapping[str, Target] = field(default_factory=dict)
    pod: Json = field(default_factory=dict)
    private_key: str = field(default="", repr=False)

    @property
    def stack(self) -> str:
        """Return the name of the stack, which is a part of the field manager."""
        return self.manager.removeprefix(FIELD_MANAGERS).removesuffix(f"-{self.pool}")


@dataclass(frozen=True, kw_only=True)
class PoolsValidation:
    """The validation of several pools: request of the program `validation`.

    Attributes:
        private_key: SSH private key to log in to the pools' hosts; empty if there is none.
    """

    context: str
    pools: tuple[PoolValidation, ...]
    private_key: str = field(default="", repr=False)


@dataclass(frozen=True, kw_only=True)
class MeasuredPool(Advertised):
    """A pool on which user-defined tests run, with the tolerations of the test pods."""

    tolerations: tuple[Json, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MeasuredTest:
    """A user-defined test.

    Attributes:
        name: Name of the test.
        image: Image of the test's container.
        command: Program and arguments.
        gpus: Number of GPUs of one node that the test gets.
        pattern: Words of the output line with the measured number; None if only the exit code
            counts.
        minimum: Lowest number that passes; None if any number passes.
        memory: Memory of the container, as a Kubernetes quantity.
        timeout_seconds: Seconds in which the test must end.
        annotations: Annotations of the test's pod.
        spec: Fields of the pod spec that all tests share.
        claim_template: Name of the ResourceClaimTemplate of the test's GPUs; None if the test
            requests an extended resource.
    """

    name: str
    image: str
    command: tuple[str, ...]
    gpus: int
    pattern: str | None
    minimum: float | None
    memory: str
    timeout_seconds: int
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Json = field(default_factory=dict)
    claim_template: str | None = None


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """The user-defined tests of a stack: request of the program `tests`.

    Attributes:
        namespace: Namespace of the test pods.
        busy: Behavior for GPUs that other pods use: `defer`, `wait` or `fail`.
        tests: The user-defined tests.
        pools: Pools on which the tests may run.
    """

    context: str
    namespace: str
    busy: str
    tests: tuple[MeasuredTest, ...]
    pools: tuple[MeasuredPool, ...]


@dataclass(frozen=True, kw_only=True)
class DesiredValidation:
    """Everything that the validation of a stack's GPUs needs.

    Attributes:
        namespace: Namespace of the validation pods, and name of their PriorityClass.
        pools: Pools with GPUs, divided so that all nodes of a pool advertise the same devices.
        pool_of: Name of the declared pool of each node, by node name.
        measuring: The user-defined tests.
        claim: ResourceClaimTemplate of the validation pods; None if they request extended
            resources.
        test_claims: ResourceClaimTemplates of the user-defined tests, by number of GPUs.
        registry: Section `registry`: where images come from.
    """

    context: str
    namespace: str
    pools: tuple[PoolValidation, ...]
    pool_of: Mapping[str, str]
    measuring: Measuring
    claim: Json | None
    test_claims: Mapping[int, Json]
    registry: RegistrySettings
