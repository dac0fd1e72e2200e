"""Follow one parameter through the calls that pass it on.

A *room* is a file that the value reaches. A *stay* is a sequence of calls within one room. A
*return* is a stay in a room that the value has left before. Calls count in the order of the source
text, callees depth first. A function is followed once, and all calls of it from one file count
once.
The value is followed through names, attributes, items and containers. An object that is created
from the value carries the value if it is passed on immediately, but not if it is assigned to a
name. The result of a computation is another value. The route ends if the callee is chosen at run
time between methods that override each other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lab.house.tree import Definition, Function, Module, Tree, decorated, parameters

Classes = tuple[Definition, ...]

WHOLE = frozenset({"Cluster", "Desired"})
"""Classes of the whole configuration.

The result of a function that creates an object of such a class from the value counts as the value.
"""

SAME = frozenset({"replace", "sorted", "list", "tuple"})
"""Functions that return their argument, or its parts."""

VIEWS = frozenset({"items", "values", "get", "pop"})
"""Methods of containers that return parts."""


@dataclass
class Route:
    """Places that a value reached, in order: a function and the value's names there."""

    arrivals: list[tuple[Definition, tuple[str, ...]]] = field(default_factory=list)
    calls: dict[tuple[Module | None, Definition], None] = field(default_factory=dict)

    @property
    def stays(self) -> list[tuple[Definition, tuple[str, ...]]]:
        """Return the first arrival of each stay."""
        found: list[tuple[Definition, tuple[str, ...]]] = []
        for arrival in self.arrivals:
            if not found or found[-1][0].module is not arrival[0].module:
                found.append(arrival)
        return found

    @property
    def rooms(self) -> list[str]:
        """Return the files in the order in which the value reaches them."""
        return list(dict.fromkeys(where.module.path for where, _ in self.stays))

    @property
    def returns(self) -> int:
        """Return the number of stays in files that the value has left before."""
        return len(self.stays) - len(self.rooms)


def follow(tree: Tree, start: Definition, name: str) -> Route:
    """Follow a function's parameter through the tree."""
    route = Route()
    _enter(tree, route, start, (name,), None)
    return route


def _enter(
    tree: Tree, route: Route, where: Definition, names: tuple[str, ...], caller: Module | None
) -> None:
    """Record an arrival, and follow the value through a function that is not yet known."""
    known = any(where == entered for _, entered in route.calls)
    if (caller, where) not in route.calls:
        route.arrivals.append((where, names))
        route.calls[caller, where] = None
    if not known:
        _Walk(tree, route, where, names).block(where.node.body)


class _Walk:
    """Follow a value through one function's body."""

    def __init__(
        self,
        tree: Tree,
        route: Route,
        where: Definition,
        names: tuple[str, ...],
    ) -> None:
        self.tree, self.route, self.where = tree, route, where
        self.held = set(names)
        self.types: dict[str, Classes] = {}
        for one in parameters(where.function):
            self.types[one.arg] = tuple(tree.classes(where.module, one.annotation))
        if where.owner is not None and where.function.args.args:
            self.types[where.function.args.args[0].arg] = (where.owner,)

    def block(self, body: Iterable[ast.AST]) -> None:
        for node in body:
            self.visit(node)

    def visit(self, node: ast.AST) -> None:
        """Process the children of a syntax node in evaluation order, then the node itself."""
        match node:
            case ast.Assign():
                self.visit(node.value)
                for target in node.targets:
                    self.bind(target, node.value)
            case ast.AnnAssign() | ast.NamedExpr() if node.value is not None:
                self.visit(node.value)
                self.bind(node.target, node.value)
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    found = tuple(self.tree.classes(self.where.module, node.annotation))
                    self.types[node.target.id] = found
            case ast.AugAssign():
                self.visit(node.value)
                if self.holds(node.value):
                    self.bind(node.target, node.value)
            case ast.For() | ast.AsyncFor():
                self.visit(node.iter)
                self.bind(node.target, node.iter)
                self.block([*node.body, *node.orelse])
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.visit(item.context_expr)
                    if item.optional_vars is not None:
                        self.bind(item.optional_vars, item.context_expr)
                self.block(node.body)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                for part in node.generators:
                    self.visit(part.iter)
                    self.bind(part.target, part.iter)
                    self.block(part.ifs)
                values = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
                self.block(values)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.block(node.body)
            case ast.ClassDef():
                pass
            case ast.Call():
                self.block(ast.iter_child_nodes(node))
                self.call(node)
            case _:
                self.block(ast.iter_child_nodes(node))

    def bind(self, target: ast.expr, value: ast.expr) -> None:
        """Assign an expression's value to a target."""
        if isinstance(target, ast.Tuple | ast.List):
            parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            if len(parts) != len(target.elts):
                parts = [value] * len(target.elts)
            for one, part in zip(target.elts, parts, strict=True):
                self.bind(one, part)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, value)
        elif isinstance(target, ast.Name):
            self.types[target.id] = self.typed(value)
            if self.holds(value) and not self.makes(value):
                self.held.add(target.id)
            else:
                self.held.discard(target.id)

    def holds(self, node: ast.AST) -> bool:
        """Check that an expression is the value, a part of it, or an object that carries it."""
        match node:
            case ast.Name():
                return node.id in self.held
            case ast.Attribute() | ast.Subscript() | ast.Starred() | ast.Await() | ast.NamedExpr():
                return self.holds(node.value)
            case ast.BoolOp():
                return any(map(self.holds, node.values))
            case ast.IfExp():
                return self.holds(node.body) or self.holds(node.orelse)
            case ast.List() | ast.Tuple() | ast.Set():
                return any(map(self.holds, node.elts))
            case ast.Dict():
                return any(map(self.holds, node.values))
            case ast.GeneratorExp() | ast.ListComp() | ast.SetComp():
                return self.holds(node.elt)
            case ast.DictComp():
                return self.holds(node.value)
            case ast.Call():
                return self.carries(node)
        return False

    def carries(self, node: ast.Call) -> bool:
        """Check that the result of a call carries the value; a computed result is another value."""
        parts = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(node.func, ast.Attribute) and node.func.attr in VIEWS:
            return self.holds(node.func.value)
        if not any(map(self.holds, parts)):
            return False
        if isinstance(node.func, ast.Name) and node.func.id in SAME:
            return True
        return self.makes(node) or any(one.name in WHOLE for one in self.typed(node))

    def makes(self, node: ast.expr) -> bool:
        """Check that an expression creates an object of a class in the tree."""
        if not isinstance(node, ast.Call):
            return False
        found = self.tree.resolve(self.where.module, node.func)
        return isinstance(found, Definition) and isinstance(found.node, ast.ClassDef)

    def typed(self, node: ast.expr) -> Classes:
        """Return the classes in the tree that an expression's value may have."""
        match node:
            case ast.Name():
                return self.types.get(node.id, ())
            case ast.Attribute():
                found: list[Definition] = []
                for owner in self.typed(node.value):
                    noted = self.tree.field(owner, node.attr)
                    found += self.tree.classes(*noted) if noted else []
                return tuple(found)
            case ast.Call():
                return tuple(self.returned(node))
            case ast.BoolOp():
                return tuple(one for part in node.values for one in self.typed(part))
            case ast.IfExp():
                return (*self.typed(node.body), *self.typed(node.orelse))
            case ast.Subscript() | ast.Await() | ast.Starred() | ast.NamedExpr():
                return self.typed(node.value)
        return ()

    def returned(self, node: ast.Call) -> Iterator[Definition]:
        if isinstance(node.func, ast.Name) and node.func.id in SAME:
            yield from self.typed(node.args[0]) if node.args else ()
            return
        found = self.tree.resolve(self.where.module, node.func)
        if isinstance(found, Definition) and isinstance(found.node, ast.ClassDef):
            yield found
            return
        for callee in self.callees(node):
            if isinstance(callee.node, Function):
                yield from self.tree.classes(callee.module, callee.node.returns)
        if isinstance(node.func, ast.Attribute) and node.func.attr in {"values", "get", "pop"}:
            yield from self.typed(node.func.value)

    def callees(self, node: ast.Call) -> Iterator[Definition]:
        """Yield the functions in the tree that a call may enter."""
        tree, function = self.tree, node.func
        found = tree.resolve(self.where.module, function)
        if isinstance(function, ast.Name) and function.id in self.types:
            return
        if isinstance(found, Definition):
            if isinstance(found.node, Function):
                yield found
            elif (made := tree.method(found, "__init__")) is not None:
                yield made
            return
        if not isinstance(function, ast.Attribute):
            return
        owners = self.typed(function.value)
        if owners:
            for owner in owners:
                method = tree.method(owner, function.attr)
                if method is not None:
                    yield method

    def call(self, node: ast.Call) -> None:
        callees = list(dict.fromkeys(self.callees(node)))
        if len(callees) != 1 or self.chosen(callees[0]):
            return
        names = self.passed_on(node, callees[0])
        if names:
            _enter(self.tree, self.route, callees[0], names, self.where.module)

    def chosen(self, callee: Definition) -> bool:
        """Check that another class in the tree overrides a method.

        In this case the callee is unknown.
        """
        if callee.owner is None or callee.node.name == "__init__":
            return False
        for other in self.tree.methods.get(callee.node.name, []):
            if other != callee and other.owner and callee.owner in self.tree.bases(other.owner):
                return True
        return False

    def passed_on(self, node: ast.Call, callee: Definition) -> tuple[str, ...]:
        """Return the callee's parameters that get the value or a part of it."""
        arguments = callee.function.args
        names = [one.arg for one in [*arguments.posonlyargs, *arguments.args]]
        every = [one.arg for one in parameters(callee.function)]
        taken: list[str] = []
        bound = callee.owner is not None and not decorated(callee.node, "staticmethod")
        if bound:
            own, names = names[0], names[1:]
            if isinstance(node.func, ast.Attribute) and callee.node.name != "__init__":
                taken += [own] * self.holds(node.func.value)
        rest = arguments.vararg
        for index, argument in enumerate(node.args):
            if self.holds(argument):
                if index < len(names):
                    taken.append(names[index])
                elif rest is not None:
                    taken.append(rest.arg)
        keywords = arguments.kwarg
        for keyword in node.keywords:
            if self.holds(keyword.value):
                if keyword.arg in every:
                    taken.append(str(keyword.arg))
                elif keywords is not None:
                    taken.append(keywords.arg)
        return tuple(dict.fromkeys(taken))


def start(tree: Tree, place: str) -> tuple[Definition, str]:
    """Find the parameter at `path.py:Class.function:parameter`.

    Raises:
        LookupError: The tree has no such function, or the function has no such parameter.
    """
    path, _, rest = place.partition(":")
    function, _, parameter = rest.partition(":")
    for found in tree.functions():
        names = [one.arg for one in parameters(found.function)]
        if (found.module.path, found.name) == (path, function) and parameter in names:
            return found, parameter
    raise LookupError(
        f"{place}: found no such parameter; wanted: path.py:function:parameter of this tree"
    )
