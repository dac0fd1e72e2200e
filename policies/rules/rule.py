"""What a rule is, what it is asked about, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from policies.rules.context import Context, Severity
from policies.rules.pod_spec import Pod, find_pod
from policies.rules.unknown import at, text


class Need(StrEnum):
    """What a rule must know besides the manifest, or it judges nothing."""

    POOLS = "pools"


@dataclass(frozen=True, slots=True)
class Subject:
    """A manifest with what the rules read from it, found once for all of them."""

    manifest: Mapping[str, object]
    kind: str
    name: str
    namespace: str
    pod: Pod | None

    @classmethod
    def of(cls, manifest: Mapping[str, object]) -> Subject:
        """Read a manifest; nothing in it makes this fail."""
        return cls(
            manifest=manifest,
            kind=text(manifest.get("kind")),
            name=text(at(manifest, "metadata", "name")),
            namespace=text(at(manifest, "metadata", "namespace")),
            pod=find_pod(manifest),
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """One place where a manifest breaks a rule. `container` is empty for what is not in one."""

    path: str
    found: str
    wanted: str
    cure: str
    container: str = ""


Check = Callable[[Subject, Context], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule over one manifest.

    `id`: `GPU001` and so on, never used again once given. `check`: pure; yields what it finds,
    raises nothing. `whole`: it judges what is missing, so partial manifests (patches) are not
    its concern. `needs`: what must be known. `why` and `source`: for the reference.
    """

    id: str
    title: str
    severity: Severity
    check: Check
    why: str
    source: str
    needs: frozenset[Need] = frozenset()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Violation:
    """A finding with its rule, the severity that holds in this context, and the object."""

    rule: Rule
    severity: Severity
    subject: str
    container: str
    path: str
    found: str
    wanted: str
    cure: str

    @property
    def message(self) -> str:
        """One line: rule, object, container, path, found, wanted, cure."""
        where = f"{self.subject}, container {self.container}" if self.container else self.subject
        return (
            f"{self.rule.id} {self.rule.title}: {where}: {self.path}: "
            f"found {self.found}, wanted {self.wanted}. {self.cure}"
        )
