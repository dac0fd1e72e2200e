"""Source tree: its modules, classes and functions, and the resolution of names in them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef

CONTAINERS = {
    "Annotated", "ClassVar", "Final", "Optional", "Required", "NotRequired", "Sequence", "Iterable",
    "Iterator", "Collection", "Set", "AbstractSet", "frozenset", "list", "set", "tuple", "type",
    "Input", "Output", "Awaitable", "Coroutine",
}  # fmt: skip
"""Generic types whose arguments are the types that they contain."""

MAPPINGS = {"Mapping", "MutableMapping", "dict", "defaultdict"}
"""Generic types whose last argument is the type of their values."""

SOURCES = ("components", "policies", "")
"""Folders that hold packages, relative to the root folder."""


@dataclass(frozen=True)
class Definition:
    """Class or function: its module, its syntax node and, for a method, its class."""

    module: Module
    node: ast.ClassDef | Function
    owner: Definition | None = None

    @property
    def name(self) -> str:
        """Return the definition's name; for a method, `Class.method`."""
        return f"{self.owner.name}.{self.node.name}" if self.owner else self.node.name

    @property
    def function(self) -> Function:
        """Return the function's syntax node.

        Raises:
            TypeError: The definition is a class.
        """
        if isinstance(self.node, ast.ClassDef):
            raise TypeError(f"{self}: found a class; wanted: a function")
        return self.node

    def __str__(self) -> str:
        """Return the definition's file, line and name."""
        return f"{self.module.path}:{self.node.lineno} {self.name}"

    def __hash__(self) -> int:
        """Return a hash of module, line and name."""
        return hash((self.module.name, self.node.lineno, self.name))

    def __eq__(self, other: object) -> bool:
        """Compare two definitions by the identity of their syntax nodes."""
        return isinstance(other, Definition) and self.node is other.node


@dataclass(eq=False)
class Module:
    """Python module: its syntax tree, its definitions and its imported names."""

    name: str
    path: str
    syntax: ast.Module
    package: bool = False
    imported: dict[str, str] = field(default_factory=dict)
    top: Definition | None = None

    @cached_property
    def defined(self) -> dict[str, Definition]:
        """Return the classes and functions at the module's top level, by name."""
        return {
            node.name: Definition(self, node)
            for node in _statements(self.syntax.body)
            if isinstance(node, ast.ClassDef | Function)
        }

    @cached_property
    def assigned(self) -> dict[str, ast.expr]:
        """Return the expressions that the module's top level assigns, by name."""
        found: dict[str, ast.expr] = {}
        for node in _statements(self.syntax.body):
            if isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
                found.update(dict.fromkeys(names, node.value))
            elif (
                isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value
            ):
                found[node.target.id] = node.value
        return found

    def absolute(self, node: ast.ImportFrom) -> str:
        """Return the absolute name of the module in a `from … import` statement."""
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        kept = parts[: len(parts) - node.level + self.package]
        return ".".join([*kept, *([node.module] if node.module else [])])


class Tree:
    """All Python modules of some packages in one root folder."""

    def __init__(self, root: Path, packages: Iterable[str]) -> None:
        """Read every Python file of the packages, and `__main__.py` of the root folder."""
        files = [
            (root / source, path)
            for name in packages
            for source in SOURCES
            for path in sorted((root / source / name).rglob("*.py"))
        ]
        files += [(root, path) for path in [root / "__main__.py"] if path.is_file()]
        self.root = root
        modules = (_module(root, source, path) for source, path in files)
        self.modules = {module.name: module for module in modules}
        for module in self.modules.values():
            module.imported = dict(self._imported(module))

    def _imported(self, module: Module) -> Iterator[tuple[str, str]]:
        """Yield each name that a module imports, with the absolute name of the imported object."""
        for node in ast.walk(module.syntax):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    yield alias.asname or whole, whole
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    yield alias.asname or alias.name, f"{module.absolute(node)}.{alias.name}"

    def functions(self) -> Iterator[Definition]:
        """Yield every function and method, in the order of files and lines."""
        for module in self.modules.values():
            yield from _functions(module, module.syntax.body, None)

    def find(self, whole: str) -> Module | Definition | ast.expr | None:
        """Return what an absolute name such as `package.module.Class` refers to."""
        if whole in self.modules:
            return self.modules[whole]
        holder, _, name = whole.rpartition(".")
        if holder in self.modules:
            return self.look_up(self.modules[holder], name)
        return None

    def look_up(self, module: Module, name: str) -> Module | Definition | ast.expr | None:
        """Return what a name in a module refers to, also through imports from other modules."""
        if name in module.defined:
            return module.defined[name]
        if name in module.assigned:
            return module.assigned[name]
        whole = module.imported.get(name)
        if whole is None or whole == f"{module.name}.{name}":
            return None
        return self.find(whole)

    def resolve(self, module: Module, node: ast.expr) -> Module | Definition | ast.expr | None:
        """Return what a name or dotted name refers to in a module."""
        if isinstance(node, ast.Name):
            return self.look_up(module, node.id)
        if isinstance(node, ast.Attribute):
            holder = self.resolve(module, node.value)
            if isinstance(holder, Module):
                inner = f"{holder.name}.{node.attr}"
                return self.modules.get(inner) or self.look_up(holder, node.attr)
            dotted = _dotted(node)
            return self.find(dotted) if dotted and _dotted(node.value) in self.modules else None
        return None

    def classes(self, module: Module, annotation: ast.expr | None) -> Iterator[Definition]:
        """Yield the tree's classes that an annotation names, also inside unions and strings."""
        yield from self._classes(module, annotation, ())

    def _classes(
        self, module: Module, node: ast.expr | None, seen: tuple[ast.expr, ...]
    ) -> Iterator[Definition]:
        if node is None or node in seen:
            return
        seen = (*seen, node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from self._classes(module, _parsed(node.value), seen)
        elif isinstance(node, ast.BinOp):
            yield from self._classes(module, node.left, seen)
            yield from self._classes(module, node.right, seen)
        elif isinstance(node, ast.Subscript):
            for part in _held(node):
                yield from self._classes(module, part, seen)
        elif isinstance(node, ast.Name | ast.Attribute):
            found = self.resolve(module, node)
            if isinstance(found, Definition) and isinstance(found.node, ast.ClassDef):
                yield found
            elif isinstance(found, ast.expr):
                yield from self._classes(self._home(module, node) or module, found, seen)

    def _home(self, module: Module, node: ast.expr) -> Module | None:
        """Return the module in which a name is assigned, also through imports of other modules."""
        if isinstance(node, ast.Attribute):
            holder = self.resolve(module, node.value)
            return self._home(holder, ast.Name(node.attr)) if isinstance(holder, Module) else None
        if not isinstance(node, ast.Name) or node.id in module.assigned:
            return module
        holder_name, _, name = module.imported.get(node.id, "").rpartition(".")
        holder = self.modules.get(holder_name)
        return self._home(holder, ast.Name(name)) if holder else None

    def bases(self, definition: Definition) -> Iterator[Definition]:
        """Yield a class, then its base classes that are in the tree, the nearest first."""
        yield definition
        inherited = definition.node.bases if isinstance(definition.node, ast.ClassDef) else []
        for base in inherited:
            found = self.resolve(
                definition.module, base.value if isinstance(base, ast.Subscript) else base
            )
            if isinstance(found, Definition) and isinstance(found.node, ast.ClassDef):
                yield from self.bases(found)

    def method(self, owner: Definition, name: str) -> Definition | None:
        """Return the method `name` of a class, own or inherited."""
        for holder in self.bases(owner):
            for node in holder.node.body:
                if isinstance(node, Function) and node.name == name:
                    return Definition(holder.module, node, holder)
        return None

    def field(self, owner: Definition, name: str) -> tuple[Module, ast.expr] | None:
        """Return the annotation of a class's field or property, with its module."""
        for holder in self.bases(owner):
            for node in holder.node.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    if node.target.id == name:
                        return holder.module, node.annotation
                elif isinstance(node, Function) and node.name == name and node.returns:
                    return holder.module, node.returns
        return None

    def field_names(self, owner: Definition) -> list[str]:
        """Return the names of a data class's fields in order, inherited fields first."""
        return [
            node.target.id
            for holder in reversed(list(self.bases(owner)))
            for node in holder.node.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        ]

    @cached_property
    def methods(self) -> dict[str, list[Definition]]:
        """Return the methods of all classes by name; several classes may share a name."""
        found: dict[str, list[Definition]] = {}
        for definition in self.functions():
            if definition.owner is not None:
                found.setdefault(definition.node.name, []).append(definition)
        return found


def parameters(node: Function) -> list[ast.arg]:
    """Return a function's parameters in order, with `*args` and `**kwargs` last."""
    arguments = node.args
    starred = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *starred]


def decorated(node: ast.ClassDef | Function, name: str) -> bool:
    """Check that a class or function has a decorator `name`, with or without arguments."""
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if _dotted(target).rpartition(".")[2] == name:
            return True
    return False


def _module(root: Path, source: Path, path: Path) -> Module:
    parts = list(path.relative_to(source).with_suffix("").parts)
    package = parts[-1] == "__init__"
    name = ".".join(parts[:-1] if package else parts)
    return Module(name, path.relative_to(root).as_posix(), ast.parse(path.read_bytes()), package)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a block, also those nested in `if` and `try` statements."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _statements(node.body)
            yield from _statements(node.orelse)


def _functions(
    module: Module, body: list[ast.stmt], owner: Definition | None
) -> Iterator[Definition]:
    for node in _statements(body):
        if isinstance(node, Function):
            yield Definition(module, node, owner)
        elif isinstance(node, ast.ClassDef):
            yield from _functions(module, node.body, Definition(module, node, owner))


def _held(node: ast.Subscript) -> list[ast.expr]:
    """Return the element types in a generic annotation; of a mapping only the type of its values.

    Callables have no element types.
    """
    kind = _dotted(node.value).rpartition(".")[2]
    inside = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if kind in MAPPINGS:
        return inside[-1:]
    if kind == "Annotated":
        return inside[:1]
    return inside if kind in CONTAINERS else []


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        holder = _dotted(node.value)
        return f"{holder}.{node.attr}" if holder else ""
    return ""


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
