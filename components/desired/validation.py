"""What is validated: pools as their nodes are counted, and user-defined tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from components.desired.host import Target
from components.desired.pool import Members
from components.platforms.base import Offer
from components.settings.registry import RegistrySettings

Json = dict[str, Any]

POOL = "gpu-cluster/validation"
"""Label of validation pods: the pool."""


@dataclass(frozen=True, kw_only=True)
class Advertised(Members):
    """A pool all of whose nodes advertise the same devices.

    Attributes:
        gpus: GPUs of each node.
        offers: extended resources that each node advertises.
        namespace: namespace of the validation pods.
    """

    gpus: int
    offers: tuple[Offer, ...]
    namespace: str

    @property
    def resources(self) -> dict[str, int]:
        """How much of each extended resource a node advertises."""
        return {offer.resource: offer.count for offer in self.offers}

    @property
    def devices(self) -> int:
        """How many devices of a node must run a kernel: GPUs or MIG devices."""
        return sum(offer.devices for offer in self.offers)

    @property
    def is_shared(self) -> bool:
        """Whether several containers may get the same device."""
        return any(offer.count > offer.devices * offer.unit for offer in self.offers)

    @property
    def is_whole(self) -> bool:
        """Whether each device that a node advertises is a whole GPU of one container alone."""
        return len(self.offers) == 1 and all(
            offer.devices == self.gpus and offer.count == offer.devices * offer.unit
            for offer in self.offers
        )


@dataclass(frozen=True, kw_only=True)
class PoolValidation(Advertised):
    """The validation of a pool: request of the program ``validation``.

    Attributes:
        manager: field manager of the pool, which is in the nodes' records.
        timeout_seconds: how long the nodes may take together.
        busy: what happens to GPUs that other pods hold: ``defer``, ``wait`` or ``fail``.
        settings: the settings for which a validation stands, by name; long ones as digests.
        own: the same of nodes whose hosts have settings of their own, by node.
        spaces: namespaces whose DaemonSets bring GPUs to containers.
        hosts: how the nodes' hosts are reached, by node.
        pod: what the validation pods have in common (`components.desired.pod_template.template`).
        private_key: an SSH private key that logs in to the hosts; empty: there is none.
    """

    manager: str
    timeout_seconds: int
    busy: str
    settings: Mapping[str, str]
    own: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    spaces: tuple[str, ...] = ()
    hosts: Mapping[str, Target] = field(default_factory=dict)
    pod: Json = field(default_factory=dict)
    private_key: str = field(default="", repr=False)


@dataclass(frozen=True, kw_only=True)
class MeasuredPool(Advertised):
    """A pool on which tests run. `tolerations`: those of the tests' pods."""

    tolerations: tuple[Json, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MeasuredTest:
    """A user-defined test.

    Attributes:
        name: its name; `image` and `command`: what runs.
        gpus: GPUs of one node that it gets.
        pattern: words of the line that holds its figure; None: the exit code alone counts.
        minimum: the least that the figure may be; None: anything may be.
        memory: memory of its container, as a Kubernetes quantity.
        timeout_seconds: seconds until it must have ended.
        annotations: annotations of its pod; `spec`: the rest of the pod.
        claim_template: ResourceClaimTemplate of its GPUs; None: it requests a resource.
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
    """The user-defined tests of a stack: request of the program ``tests``.

    Attributes:
        context: context of the kubeconfig.
        namespace: namespace of the tests' pods.
        busy: as of `PoolValidation`.
        tests: the tests; `pools`: where they may run.
    """

    context: str
    namespace: str
    busy: str
    tests: tuple[MeasuredTest, ...]
    pools: tuple[MeasuredPool, ...]


@dataclass(frozen=True, kw_only=True)
class DesiredValidation:
    """The proof that each declared GPU runs a kernel.

    Attributes:
        context: context of the kubeconfig.
        namespace: namespace of the validation pods, and name of their PriorityClass.
        pools: pools with GPUs, as they are counted.
        pool_of: name of the declared pool by node, for nodes that are counted apart.
        measuring: the user-defined tests.
        claim: template of the validation pods' claims; None: they request extended resources.
        test_claims: the same of the tests, by their number of GPUs.
        registry: where images come from.
    """

    context: str
    namespace: str
    pools: tuple[PoolValidation, ...]
    pool_of: Mapping[str, str]
    measuring: Measuring
    claim: Json | None
    test_claims: Mapping[int, Json]
    registry: RegistrySettings
