"""Follow one parameter through the calls that pass it on.

The parameter is the *value*. It *passes* a file if a call hands it, or an object that holds it, to
a function in the file, or if a function in the file reads it from an attribute of another object.
Each function counts once, at its first call; calls count in the order in which they are written,
callees depth first. A *stay* is a run of such functions in one file. A *return* is a stay in a file
that the value has left before.

The value is the whole configuration: the parameter, and any `Cluster` or `Desired` that a function
makes of it. It is followed through names, items, containers, fields of data classes, and
attributes: `self.whole = whole` in one method is read as `self.whole` in another method, and as
`made.whole` in any function or module that has an instance. A call of a method that other methods
override enters each of these methods too.

A part of the whole configuration is another value: an attribute whose annotation names no class of
the whole configuration. So is what a function computes from the value. `--value` follows a part
from the function that takes it.
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

Fields = dict[tuple[Definition, str], Classes]
"""Attributes that hold the value, by class and name, with the classes of what they hold."""

SAME = frozenset({"replace", "sorted", "list", "tuple"})
"""Functions that return their argument, or its parts."""

PROPERTIES = ("property", "cached_property")

VIEWS = frozenset({"items", "values", "get", "pop"})
"""Methods of containers that return parts."""


@dataclass
class Route:
    """Functions that a value reached, in order, each with the value's names in the function.

    The value is the parameter that is followed through the program.
    """

    arrivals: list[tuple[Definition, tuple[str, ...]]] = field(default_factory=list)
    entered: set[Definition] = field(default_factory=set)
    whole: frozenset[Definition] = frozenset()
    fields: Fields = field(default_factory=dict)

    @property
    def stays(self) -> list[tuple[Definition, tuple[str, ...]]]:
        """Return the first arrival of each stay: of each run of functions in one file."""
        found: list[tuple[Definition, tuple[str, ...]]] = []
        for arrival in self.arrivals:
            if not found or found[-1][0].module is not arrival[0].module:
                found.append(arrival)
        return found

    @property
    def rooms(self) -> list[str]:
        """Return the files that the value reaches, in the order of the first arrival."""
        return list(dict.fromkeys(where.module.path for where, _ in self.stays))

    @property
    def returns(self) -> int:
        """Return the number of stays in files that the value had reached and left before."""
        return len(self.stays) - len(self.rooms)


def follow(tree: Tree, start: Definition, name: str) -> Route:
    """Follow the parameter `name` of the function `start` through the tree."""
    given = [one.annotation for one in parameters(start.function) if one.arg == name]
    whole = frozenset(one for part in given for one in tree.classes(start.module, part))
    fields: Fields = {}
    # An attribute may be read in a method that was entered before the attribute was assigned. So
    # repeat until no new attribute is found.
    while True:
        route = Route(whole=whole, fields=dict(fields))
        _enter(tree, route, start, (name,))
        _readers(tree, route)
        if route.fields.keys() == fields.keys():
            return route
        fields = route.fields


def _enter(tree: Tree, route: Route, where: Definition, names: tuple[str, ...]) -> None:
    """Record that the value arrived in a function, and follow it through the function's body.

    A function that was entered before is skipped.
    """
    if where not in route.entered:
        route.entered.add(where)
        route.arrivals.append((where, names))
        _Walk(tree, route, where, names).block(where.node.body)


def _readers(tree: Tree, route: Route) -> None:
    """Enter the functions and modules that read the value from an attribute of an object."""
    for where in [*tree.functions(), *map(_top, tree.modules.values())]:
        if names := _reads(tree, route, where):
            _enter(tree, route, where, names)


def _reads(tree: Tree, route: Route, where: Definition) -> tuple[str, ...]:
    """Return the attributes with the value that a function reads; () if it was entered before."""
    known = {name for _, name in route.fields}
    read = {one.attr for one in ast.walk(where.node) if isinstance(one, ast.Attribute)}
    if where in route.entered or not known & read:
        return ()
    walk = _Walk(
        tree,
        Route(entered=set(route.entered), whole=route.whole, fields=dict(route.fields)),
        where,
        (),
    )
    walk.dry = True
    walk.block(where.node.body)
    return tuple(dict.fromkeys(walk.read))


def _top(module: Module) -> Definition:
    """Return a module's top-level statements as the body of a function without parameters."""
    if module.top is None:
        text = ast.parse("def module(): ...")
        made = next(node for node in text.body if isinstance(node, ast.FunctionDef))
        made.body = [node for node in module.syntax.body if not isinstance(node, Function)]
        module.top = Definition(module, made)
    return module.top


class _Walk:
    """Follows the value through the body of one function."""

    def __init__(
        self,
        tree: Tree,
        route: Route,
        where: Definition,
        names: tuple[str, ...],
    ) -> None:
        self.tree, self.route, self.where = tree, route, where
        self.held = set(names)
        self.read: list[str] = []
        self.dry = False
        self.types: dict[str, Classes] = {}
        for one in parameters(where.function):
            self.types[one.arg] = tuple(tree.classes(where.module, one.annotation))
        if where.owner is not None and where.function.args.args:
            self.types[where.function.args.args[0].arg] = (where.owner,)

    def block(self, body: Iterable[ast.AST]) -> None:
        for node in body:
            self.visit(node)

    def visit(self, node: ast.AST) -> None:
        """Visit the children of a syntax node in evaluation order, then the node itself."""
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
            case ast.Attribute():
                if isinstance(node.ctx, ast.Load) and self.noted(node) is not None:
                    self.read.append(ast.unparse(node))
                self.visit(node.value)
                self.computed(node)
            case ast.Call():
                self.block(ast.iter_child_nodes(node))
                self.call(node)
            case _:
                self.block(ast.iter_child_nodes(node))

    def bind(self, target: ast.expr, value: ast.expr) -> None:
        """Record an assignment: the target then holds the value if the assigned expression does."""
        if isinstance(target, ast.Tuple | ast.List):
            parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            if len(parts) != len(target.elts):
                parts = [value] * len(target.elts)
            for one, part in zip(target.elts, parts, strict=True):
                self.bind(one, part)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, value)
        elif isinstance(target, ast.Attribute):
            if self.holds(value):
                for owner in self.typed(target.value):
                    self.route.fields[owner, target.attr] = self.typed(value)
        elif isinstance(target, ast.Name):
            self.types[target.id] = self.typed(value)
            if self.holds(value):
                self.held.add(target.id)
            else:
                self.held.discard(target.id)

    def holds(self, node: ast.AST) -> bool:
        """Check that an expression is the followed value, or an object that holds the value."""
        match node:
            case ast.Name():
                return node.id in self.held
            case ast.Attribute():
                if self.noted(node) is not None:
                    return True
                return self.holds(node.value) and not self.is_part(node)
            case ast.Subscript() | ast.Starred() | ast.Await() | ast.NamedExpr():
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

    def noted(self, node: ast.Attribute) -> Classes | None:
        """Return the classes of the value that an attribute holds, or None if it holds none."""
        for owner in self.typed(node.value):
            for one in self.tree.bases(owner):
                found = self.route.fields.get((one, node.attr))
                if found is not None:
                    return found
        return None

    def is_part(self, node: ast.Attribute) -> bool:
        """Check that an attribute holds a part of the configuration, and not all of it.

        This is decided by the attribute's type annotation: it must have one, and the annotation
        must not name a class in `WHOLE`, whose objects hold the whole configuration.
        """
        fields = [self.tree.field(owner, node.attr) for owner in self.typed(node.value)]
        known = [noted for noted in fields if noted is not None]
        return bool(known) and not any(map(self.is_whole, self.typed(node)))

    def is_whole(self, found: Definition) -> bool:
        return found in self.route.whole or found.name in WHOLE

    def carries(self, node: ast.Call) -> bool:
        """Check that the result of a call holds the value.

        A result that is computed from the value is another value.
        """
        parts = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(node.func, ast.Attribute) and node.func.attr in VIEWS:
            return self.holds(node.func.value)
        whole = any(map(self.is_whole, self.typed(node)))
        if isinstance(node.func, ast.Attribute) and whole and self.holds(node.func.value):
            return True
        if not any(map(self.holds, parts)):
            return False
        if isinstance(node.func, ast.Name) and node.func.id in SAME:
            return True
        return whole or self.makes(node) is not None

    def makes(self, node: ast.expr) -> Definition | None:
        """Return the data class of the tree that a call instantiates, or None."""
        if not isinstance(node, ast.Call):
            return None
        found = self.tree.resolve(self.where.module, node.func)
        if not isinstance(found, Definition) or not isinstance(found.node, ast.ClassDef):
            return None
        return found if self.tree.method(found, "__init__") is None else None

    def fill(self, node: ast.Call) -> None:
        """Record which fields of a data class get the value in a constructor or `replace` call."""
        given = [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg]
        owners: Classes = ()
        if (made := self.makes(node)) is not None:
            owners = (made,)
            given += zip(self.tree.field_names(made), node.args, strict=False)
        elif isinstance(node.func, ast.Name) and node.func.id == "replace" and node.args:
            owners = self.typed(node.args[0])
        for name, value in given:
            if self.holds(value):
                for owner in owners:
                    self.route.fields[owner, name] = self.typed(value)

    def typed(self, node: ast.expr) -> Classes:
        """Return the classes in the tree of which an expression's value may be an instance."""
        match node:
            case ast.Name():
                return self.types.get(node.id, ())
            case ast.Attribute():
                found: list[Definition] = []
                for owner in self.typed(node.value):
                    noted = self.tree.field(owner, node.attr)
                    found += self.tree.classes(*noted) if noted else []
                return tuple(found) or self.noted(node) or ()
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
        """Yield the functions in the tree that a call expression may call."""
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
        self.fill(node)
        if self.dry:
            return
        callees = list(dict.fromkeys(self.callees(node)))
        if len(callees) != 1:
            return
        for callee in list(self.overriding(callees[0])) or callees:
            names = self.passed_on(node, callee) or _reads(self.tree, self.route, callee)
            if names:
                _enter(self.tree, self.route, callee, names)

    def computed(self, node: ast.Attribute) -> None:
        """Enter a property that is read from an object holding the value."""
        for owner in () if self.dry else self.typed(node.value):
            found = self.tree.method(owner, node.attr)
            if found is None or not any(decorated(found.node, kind) for kind in PROPERTIES):
                continue
            if names := _reads(self.tree, self.route, found):
                _enter(self.tree, self.route, found, names)

    def overriding(self, callee: Definition) -> Iterator[Definition]:
        """Yield the methods that override `callee`; the source doesn't show which one is called."""
        if callee.owner is None or callee.node.name == "__init__":
            return
        for other in self.tree.methods.get(callee.node.name, []):
            if other != callee and other.owner and callee.owner in self.tree.bases(other.owner):
                yield other

    def passed_on(self, node: ast.Call, callee: Definition) -> tuple[str, ...]:
        """Return the names of the callee's parameters that get the value in a call."""
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
    """Find the parameter that `place` names, in the form `path.py:Class.function:parameter`.

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
