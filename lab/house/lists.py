"""Lists of texts that several modules write, and the register of those that must be written twice.

A list is a module's constant (tuple, list, set, keys of a mapping), a `Literal` or an enum. Two
lists of different modules repeat each other if they have three texts in common. One of them is to
be derived from the other; where that can't be, the register says how they are compared.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from lab.house.tree import Tree

COMMON = 3
"""Texts in common that make two lists a repetition."""

REGISTER: dict[str, tuple[str, str]] = {
    "admission.manifests:ACTIONS": ("equal", "settings.guardrails:GuardrailMode"),
    "commands.display:DONE": ("equal", "change.document:Operation"),
    "commands.display:OPERATIONS": ("more", "change.document:Operation"),
    "commands.display:SIGNS": ("equal", "change.document:Operation"),
    "driver_daemonset.container:MAJOR_ONLY": ("part", "hosts.preflight:SYSTEMS"),
    "gpu_manager.platform:SOCKETS": ("part", "hosts.runtime:Engine"),
    "hosts.commands:TEXTS": ("part", "hosts.command:INPUTS"),
    "inspection.ends:_CURES": ("part", "settings.support:CLAIMS"),
    "inspection.ends:_SYSTEMS": ("part", "settings.support:CLAIMS"),
    "inspection.upgrade_path:_SETTINGS": ("part", "settings.support:TITLES"),
    "settings.rollout:Judged": ("part", "settings.support:TITLES"),
    "kubeadm.access:_TOP": ("equal", "charts:_NO_CLUSTER"),
    "kubeadm.kubeconfig:EMPTY": ("part", "kubeadm.access:_TOP"),
    "loading.validate_adopted:_DESCRIBING": ("part", "placement.gpu015_advertised:_ADVERTISED"),
    "maintenance.facts:PROVED": ("part", "settings.support:CLAIMS"),
    "namespaces.gpu012_limit_range:_FIELDS": ("part", "guard:_FREE"),
    "context:Mig": ("equal", "settings.plugin_flags:MigStrategy"),
    "rules.replicas:_SCALED": ("part", "rules.pod_spec:_TEMPLATE"),
    "gpu_rules.settings_file:EXAMPLES": ("more", "gpu_rules.parameters:PROPERTIES"),
    "settings.support:REBUILDS": ("part", "hosts.preflight:FIRST_WITH_DNF"),
}
"""Lists that must be written, each with the list that it is compared with.

It is `equal` to the other list, `part` of it, or has `more` texts. A list is named by the end of
its module's name.
"""

OTHER_THINGS: dict[str, tuple[str, ...]] = {
    "fields of Kubernetes objects, which each module chooses for its own purpose": (
        *("charts.value_types:_TOLERATION", "rollout.component:UNSCHEDULABLE"),
        *("nodes.gpu_holders:UNREAD", "check.shape:_CONTAINER", "check.shape:_METADATA"),
        *("check.kustomization:_TEXTS", "rules.custom:_SAYS_NOTHING", "guard:_FREE"),
        *("rules.patches:_BY_NAME", "rules.placeholders:_AS_WRITTEN"),
        *("admission.pod_variables:POD_VARIABLES", "rules.custom:_OF_A_POD"),
    ),
    "what Pulumi does to a resource, and the inputs of a Command": (
        *("change.document:Operation", "hosts.command:INPUTS", "hosts.commands:TEXTS"),
        *("commands.display:SIGNS", "commands.display:DONE", "commands.display:OPERATIONS"),
    ),
    "sections of the stack file; and names of resources, parts, columns and digests": (
        *("settings.effects:EFFECTS", "change.lines:SECTIONS"),
        *("programs:PROGRAMS", "desired.parts:Part", "observed.table:HEAD"),
        *("inspection.document:DIGESTED", "package.packaged:_EACH", "package.packaged:_SERVING"),
        *("package.schema:WITH_DEFAULTS",),
    ),
    "systems with a package manager, and software with an end of support": (
        *("hosts.preflight:SYSTEMS", "hosts.preflight:FIRST_WITH_DNF", "settings.support:CLAIMS"),
        *("settings.support:TITLES", "settings.support:REBUILDS", "maintenance.facts:PROVED"),
        *("inspection.ends:_CURES", "driver_daemonset.container:MAJOR_ONLY"),
        *("report.software:SYSTEMS", "inspection.ends:_SYSTEMS"),
    ),
    "software by what is known of it: ends, upgrades, values of charts, floors, effects": (
        *("settings.support:TITLES", "settings.support:CLAIMS", "inspection.ends:_CURES"),
        *("settings.support:PATCHES", "settings.rollout:Judged"),
        "inspection.upgrade_path:_SETTINGS",
        *("charts.value_table:SERIES", "floors:Software", "facts.floors:_IMAGES"),
        "settings.effects:EFFECTS",
    ),
    "objects that a twin checks, and all kinds of the API": (
        *("admission.gatekeeper:_KINDS", "rules.twin:Scope"),
        *("rules.pod_spec:_TEMPLATE", "rules.pod_spec:_GROUPS", "rules.replicas:_SCALED"),
    ),
    "images that name their version, parts with a security floor, and operands that are edited": (
        *("charts.gpu053_part_versions:_VERSIONED", "charts.gpu073_part_floors:_PARTS"),
        "gpu_operator.node_overrides:APPS",
    ),
    "wrong names of resources, and words in names of an inventory's groups": (
        *("rules.resource_names:_WRONG", "adoption.machines:_GPU_WORDS"),
    ),
    "columns of the evidence, and states of a GPU on the page": (
        *("evidence.collect:COUNTS", "report.gpu_map:State"),
    ),
    "three ways to name a kubeconfig without a cluster": (
        *("kubeadm.access:_TOP", "kubeadm.kubeconfig:EMPTY", "charts:_NO_CLUSTER"),
    ),
}
"""Lists that have words in common and mean different things, by what they mean."""


@dataclass(frozen=True)
class List:
    """List of texts in a module, named `module:NAME`."""

    name: str
    texts: frozenset[str]

    @property
    def module(self) -> str:
        """Return the name of the list's module."""
        return self.name.partition(":")[0]

    def is_named(self, end: str) -> bool:
        """Check that the end of a name is this list's."""
        return f".{self.name}".endswith(f".{end}")


def read_lists(tree: Tree) -> list[List]:
    """Return the lists of a tree's modules that have at least `COMMON` texts."""
    lists = [
        List(f"{module.name}:{name}", texts)
        for module in tree.modules.values()
        for name, texts in _module_lists(module.syntax)
    ]
    return [module_list for module_list in lists if len(module_list.texts) >= COMMON]


def _module_lists(module: ast.Module) -> Iterator[tuple[str, frozenset[str]]]:
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            if any("Enum" in ast.unparse(base) for base in node.bases):
                values = [
                    assignment.value
                    for assignment in node.body
                    if isinstance(assignment, ast.Assign)
                ]
                yield node.name, _literal_texts(ast.Tuple(list(values)))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    yield target.id, _literal_texts(node.value)


def _literal_texts(value: ast.expr | None) -> frozenset[str]:
    """Return the literal texts of a collection; of a mapping those of its keys."""
    expressions: list[ast.expr | None] = []
    match value:
        case ast.Constant(value=str(text)):
            return frozenset({text})
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            expressions = [*items]
        case ast.Dict(keys=keys):
            expressions = keys
        case ast.Starred(value=inner) | ast.Subscript(value=ast.Name("Literal"), slice=inner):
            expressions = [inner]
        case ast.Call(func=ast.Name("frozenset" | "set" | "tuple" | "MappingProxyType"), args=args):
            expressions = [*args]
        case ast.BinOp(left=left, right=right):
            expressions = [left, right]
    return frozenset[str]().union(*map(_literal_texts, expressions))


def unregistered(tree: Tree, packages: frozenset[str]) -> list[str]:
    """Return what is wrong with the lists of packages: repetitions, and comparisons that fail."""
    lists = [
        module_list
        for module_list in read_lists(tree)
        if module_list.name.partition(".")[0] in packages
    ]
    return [*repetitions(lists), *_failing_entries(lists)]


def repetitions(lists: list[List]) -> list[str]:
    """Return the pairs of lists that repeat each other and aren't in the register."""
    return [
        f"{first.name} and {second.name}: {', '.join(sorted(common))}"
        for first, second in combinations(lists, 2)
        if len(common := first.texts & second.texts) >= COMMON
        if first.module != second.module and not _is_registered(first, second)
    ]


def _is_registered(first: List, second: List) -> bool:
    for first_list, second_list in ((first, second), (second, first)):
        if any(
            first_list.is_named(name) and second_list.is_named(REGISTER[name][1])
            for name in REGISTER
        ):
            return True
    return any(
        any(map(first.is_named, names)) and any(map(second.is_named, names))
        for names in OTHER_THINGS.values()
    )


def _failing_entries(lists: list[List]) -> Iterator[str]:
    """Yield the entries of the register that name no list, or whose lists differ."""
    for name, (relation, source) in REGISTER.items():
        own_texts = [module_list.texts for module_list in lists if module_list.is_named(name)]
        other_texts = [module_list.texts for module_list in lists if module_list.is_named(source)]
        if len(own_texts) != 1 or len(other_texts) != 1:
            yield f"{name} or {source}: found no or several such lists"
        elif not is_related(own_texts[0], relation, other_texts[0]):
            differing = ", ".join(sorted(own_texts[0] ^ other_texts[0]))
            yield f"{name} isn't {relation} of {source}: {differing}"


def is_related(own_texts: frozenset[str], relation: str, other_texts: frozenset[str]) -> bool:
    """Return whether the texts of two lists are related as `relation` says.

    Args:
        relation: `equal`; `part` if the other list has at least the own texts; `more` if the own
            list has at least the other's.
    """
    return {
        "equal": own_texts == other_texts,
        "part": own_texts <= other_texts,
        "more": own_texts >= other_texts,
    }[relation]
