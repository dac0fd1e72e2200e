"""Collect the texts of the product's errors, and write docs/reference/errors.md: `make errors`.

An error is a call that makes a fault (place, found, wanted, cure), an exception with a text, or a
`fail` of a host's script. What a text takes from its surroundings stands as `…` on the page.

Each text has a mark, which stands where the text is made: its cure; a cure that is an `Outside`; a
`PartError`, whose text is a part of another text; or a message of a run that waits. An exception's
class may have the cure of all its texts, in its attribute `cure`. The cures of `fail_act`,
`fail_file` and the other functions `fail_…` of the scripts are acts on a host.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "errors.md"
ADOPTED = "Running clusters that are taken over, and inventories"
SUBJECTS = {
    "components/gpu_cluster/commands": "Commands",
    "maintenance": "Tools of maintainers",
    "components/gpu_cluster/settings": "Settings of the stack file",
    "components/gpu_cluster/loading": "The stack file as a whole",
    "components/gpu_cluster/hosts/steps": "Scripts on hosts",
    "components/gpu_cluster/hosts": "Hosts",
    "components/gpu_cluster/ssh": "Connections to hosts",
    "components/gpu_cluster/commands/adoption": ADOPTED,
    "components/gpu_cluster/commands/ansible": ADOPTED,
    "components/gpu_cluster/inspection": "The cluster",
    "components/gpu_cluster/kubernetes": "The cluster",
    "components/gpu_cluster/nodes": "Nodes and validation",
    "components/gpu_cluster/validation": "Nodes and validation",
    "components/gpu_cluster/rollout": "Changes in waves",
    "components/gpu_cluster/charts": "Charts and images",
    "components/gpu_cluster/release": "Charts and images",
    "components/gpu_cluster/platforms": "Platforms",
    "components/gpu_cluster/guardrails": "Rules and the checker",
    "policies": "Rules and the checker",
    "embedded/gpu_cluster_lab/toolchain": "The toolchain",
    "components": "Other parts",
}
"""Headings of the page by folder; the longest folder that fits counts."""
WHOLE = ("Fault", "fault", "_fault")
"""Functions whose arguments are place, found, wanted and cure."""
PLACELESS = ("refuse", "InputError", "_error")
"""Functions whose arguments are found, wanted and cure."""
WAITS = ("tell",)
"""Functions that print what a run waits for or has done, after a place: nobody has to act."""
STAGED = ("failure",)
"""Methods whose arguments are stage, found and cure."""
UNNAMED = (
    "AssertionError",
    "AttributeError",
    "NotImplementedError",
    "TypeError",
    "LookupError",
    "EOFError",
)
"""Exceptions that no user sees, because a caller handles them or they are faults of the program."""
OPEN = "…"
_COMMAND = r"\$\((?:[^()]|\([^()]*\))*\)"
_NAME = r"\$\{[^}]*\}"
_FAIL = re.compile(
    rf'^[^#\n]*?\b(fail(?:_\w+)?) "((?:[^"\\$]|\\.|{_NAME}|\$(?![({{])|{_COMMAND})*)"', re.M
)
HEAD = """\
# Error texts

Each error text of this program, written by `make errors` from the code. `…` stands for a name, a
number or another value of your run. A fault has one form everywhere:
`place: found …; wanted: …; cure: …`. Search the page for some words of the message. Messages of
nodes, pods, hosts and other programs are in [troubleshooting](../how-to/troubleshooting.md).
"""


class Mark(StrEnum):
    """What a person does about an error text; the page shows the value if there is no cure."""

    CURE = ""
    OUTSIDE = "outside of this program"
    NO_ACT = "no act is needed: the run goes on by itself"
    PART = "a part of another message, which says what to do"
    NONE = "no cure yet"


@dataclass(frozen=True)
class ErrorText:
    """Text of an error, with `…` for what the surroundings fill in.

    Attributes:
        file: Path of the file that has the text, relative to the project.
        text: What the user sees.
        cure: What the user should do; empty if no act is needed, or nothing says it.
        mark: Whether there is a cure, and of what kind.
        place: What the text is about, which a message has before it; empty if a caller adds it.
    """

    file: str
    text: str
    cure: str = ""
    mark: Mark = Mark.NONE
    place: str = field(default="", compare=False)

    @property
    def subject(self) -> str:
        """Return the heading under which the page lists the text."""
        fitting = [folder for folder in SUBJECTS if self.file.startswith(f"{folder}/")]
        return SUBJECTS[max(fitting, key=len)]


@cache
def errors() -> list[ErrorText]:
    """Return all error texts, each once, in the order of files and lines."""
    found: dict[ErrorText, None] = {}
    for folder in (
        "components/gpu_cluster/commands",  # The order of the page: commands are first.
        "components",
        "maintenance",
        "policies",
        "embedded/gpu_cluster_lab/toolchain",
    ):
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix == ".py" and "__pycache__" not in path.parts:
                found.update(dict.fromkeys(of_module(name, path.read_text(encoding="utf-8"))))
            elif path.suffix == ".sh":
                found.update(dict.fromkeys(of_script(name, path.read_text(encoding="utf-8"))))
    return list(found)


def of_module(name: str, text: str) -> Iterator[ErrorText]:
    """Yield the error texts of a Python module.

    Args:
        name: Path of the module, relative to the project.
        text: Source text of the module.
    """
    yield from (made for _, made in calls_of_module(name, text))


def calls_of_module(name: str, text: str) -> Iterator[tuple[ast.Call, ErrorText]]:
    """Yield each call of a Python module that makes an error text, with the text."""
    tree = ast.parse(text)
    constants = _assigned(ast.Module([n for n in tree.body if isinstance(n, ast.Assign)], []))
    constants |= {
        node.target.id: node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value
    }
    functions = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    returned = {
        f"{one}()": returns for one, node in functions.items() if (returns := _returns(node))
    }
    inner = {one: _assigned(node).get("cure") for one, node in functions.items()}
    returned |= {f"cure of {one}()": cure for one, cure in inner.items() if cure is not None}
    for scope in _functions(tree):
        known = {**constants, **returned, **_assigned(scope)}
        calls = [node for node in ast.walk(scope) if isinstance(node, ast.Call)]
        for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
            if (made := _of_call(name, call, known)) is not None:
                yield call, made


def of_script(name: str, text: str) -> Iterator[ErrorText]:
    """Yield the error texts of a shell script: the arguments of `fail`.

    Args:
        name: Path of the script, relative to the project.
        text: Source text of the script.
    """
    for match in _FAIL.finditer(text):
        shown = re.sub(rf"{_COMMAND}|\$\{{[^}}]*\}}|\$\w+|\$[*@#?]", OPEN, match[2])
        if _has_words(shown := re.sub(r"\\(.)", r"\1", shown)):
            cure = _script_cures().get(match[1], "")
            mark = Mark.OUTSIDE if match[1] != "fail" else Mark.CURE
            parts = shown.rpartition("; ")
            if not cure and parts[0]:
                shown, cure = parts[0], parts[2]
            yield ErrorText(name, shown, cure, mark if cure else Mark.NONE)


@cache
def _script_cures() -> dict[str, str]:
    """Return the cures of functions of the scripts, which add them to each of their texts."""
    text = (ROOT / "components/gpu_cluster/hosts/steps/library/base.sh").read_text("utf-8")
    found = re.findall(r'^(fail_\w+)\(\) \{\n    fail "\$\*; (.+)"$', text, re.M)
    return {name: cure.replace("\\`", "`") for name, cure in found}


def _returns(function: ast.FunctionDef) -> ast.expr | None:
    """Return an expression for the texts that a function returns; None if it returns no text."""
    values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    texts = [one for one in values if one and shown(one, {}).strip(f"{OPEN} /")]
    chosen: ast.expr | None = None
    for one in reversed(texts):
        chosen = one if chosen is None else ast.IfExp(ast.Constant(True), one, chosen)
    return chosen


@cache
def _class_cures() -> dict[str, tuple[str, Mark]]:
    """Return the cure of all texts of an exception's class, and its mark, by the class's name."""
    found: dict[str, tuple[str, Mark]] = {"PartError": ("", Mark.PART)}
    bases: dict[str, str] = {}
    for folder in ("policies", "components", "embedded", "maintenance"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.ClassDef):
                    continue
                if node.bases and isinstance(node.bases[0], ast.Name):
                    bases[node.name] = node.bases[0].id
                for item in node.body:
                    target = item.target if isinstance(item, ast.AnnAssign) else None
                    if isinstance(item, ast.Assign):
                        target = item.targets[0]
                    value = getattr(item, "value", None)
                    if isinstance(target, ast.Name) and target.id == "cure" and value is not None:
                        found[node.name] = (shown(value, {}), _mark_of(value, {}))
    for _ in range(3):
        found = {**{name: found[base] for name, base in bases.items() if base in found}, **found}
    return found


def _mark_of(value: ast.expr | None, known: dict[str, ast.expr]) -> Mark:
    """Return the mark of a cure's expression."""
    while isinstance(value, ast.Name) and value.id in known:
        value, known = known[value.id], {k: v for k, v in known.items() if k != value.id}
    is_call = isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
    return Mark.OUTSIDE if is_call and value.func.id == "Outside" else Mark.CURE


def _functions(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield each outermost function or method of a module, then the rest of the module."""
    rest = []
    for node in tree.body:
        for each in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                yield each
            else:
                rest.append(each)
    yield ast.Module(body=rest, type_ignores=[])


def _assigned(scope: ast.AST) -> dict[str, ast.expr]:
    """Return what a function assigns to each name, if it does so once."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(scope):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Name):
            found.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, part in zip(target.elts, value.elts, strict=False):
                if isinstance(one, ast.Name):
                    found.setdefault(one.id, []).append(part)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _of_call(name: str, call: ast.Call, known: dict[str, ast.expr]) -> ErrorText | None:
    called = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    called = call.func.id if isinstance(call.func, ast.Name) else called
    values = [part for each in call.args for part in _spread(each, known)]
    parts = [shown(each, known) for each in values]
    named = {each.arg: each.value for each in call.keywords if each.arg}
    if called in (*WHOLE, *PLACELESS):
        place = parts[0] if called in WHOLE and parts else ""
        values = values[1:] if called in WHOLE else values
        given = dict(zip(("found", "wanted", "cure"), values, strict=False)) | named
        found, wanted, cure = (
            shown(given[word], known) if word in given else ""
            for word in ("found", "wanted", "cure")
        )
        text = "; ".join(
            f"{word} {part}" for word, part in (("found", found), ("wanted:", wanted)) if part
        )
        if not (_has_words(found) or _has_words(wanted)):
            return None
        if not cure and (of_function := known.get(f"cure of {called}()")) is not None:
            return ErrorText(name, text, shown(of_function, {}), _mark_of(of_function, {}))
        mark = _mark_of(given.get("cure"), known) if cure else Mark.NONE
        return ErrorText(name, text, "" if cure == OPEN else cure, mark, place)
    if called in WAITS and len(parts) > 1 and _has_words(parts[1]):
        return ErrorText(name, f"{parts[0]}: {parts[1]}", "", Mark.NO_ACT)
    if called in STAGED and len(parts) > 1 and _has_words(parts[1]):
        cure = parts[2] if parts[2:] and parts[2] != OPEN else ""
        mark = _mark_of(values[2], known) if parts[2:] and parts[2] else Mark.NONE
        return ErrorText(name, f"stage {parts[0]}: {parts[1]}", cure, mark)
    if called.endswith(("Error", "Failed", "Refused")) and called not in UNNAMED and parts:
        text, _, cure = parts[0].partition("; cure: ")
        if cure:
            return ErrorText(name, text, "" if cure == OPEN else cure, Mark.CURE)
        of_class, mark = _class_cures().get(called, ("", Mark.NONE))
        return ErrorText(name, parts[0], of_class, mark) if _has_words(parts[0]) else None
    return None


def _spread(argument: ast.expr, known: dict[str, ast.expr]) -> list[ast.expr]:
    """Return the arguments that an argument such as `*NAMES` stands for."""
    if not isinstance(argument, ast.Starred):
        return [argument]
    value = argument.value
    given = known.get(value.id) if isinstance(value, ast.Name) else None
    return list(given.elts) if isinstance(given, ast.Tuple) else []


def shown(value: ast.expr, known: dict[str, ast.expr]) -> str:
    """Return the text that an expression gives, with `…` for what only a run knows."""
    if isinstance(value, ast.Constant):
        return value.value if isinstance(value.value, str) else OPEN
    if isinstance(value, ast.JoinedStr):
        return "".join(shown(part, known) for part in value.values)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return shown(value.left, known) + shown(value.right, known)
    if isinstance(value, ast.IfExp):
        one, other = shown(value.body, known), shown(value.orelse, known)
        return " / ".join(dict.fromkeys(part for part in (one, other) if part))
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        if value.func.id == "Outside":
            return shown(value.args[0], known)
        returned = known.get(f"{value.func.id}()")
        rest = {name: given for name, given in known.items() if not name.endswith("()")}
        return shown(returned, rest) if returned is not None else OPEN
    if isinstance(value, ast.Name) and value.id in known:
        rest = {name: given for name, given in known.items() if name != value.id}
        return shown(known[value.id], rest)
    return OPEN


def _has_words(text: str) -> bool:
    """Return True if a text says something itself, at least two words."""
    return len(re.findall(r"[A-Za-z]{2,}", text)) > 1


def anchors(texts: list[ErrorText]) -> list[str]:
    """Return a unique anchor for each error text, made from its first words."""
    seen: Counter[str] = Counter()
    found = []
    for one in texts:
        words = re.findall(r"[a-z0-9]+", one.text.replace("found", "", 1).lower())
        name = "-".join(["error", *words[:9]])
        found.append(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def page() -> str:
    """Return the text of docs/reference/errors.md, a table of error texts for each subject."""
    texts = errors()
    named = dict(zip(texts, anchors(texts), strict=True))
    lines = [HEAD]
    for subject in dict.fromkeys(SUBJECTS.values()):
        own = [one for one in texts if one.subject == subject]
        if own:
            lines += [f"## {subject}\n", "| text | what to do |", "| --- | --- |"]
            lines += [
                f'| <a id="{named[one]}"></a>{_cell(one.text)} | {_cell(_act(one))} |'
                for one in own
            ]
            lines.append("")
    return "\n".join(lines)


def _act(one: ErrorText) -> str:
    """Return what the page says about a text's cure."""
    if one.mark is Mark.OUTSIDE:
        return f"{one.cure} ({one.mark})"
    return one.cure or (one.mark or "what the message says after `cure:`")


def _cell(text: str) -> str:
    """Return a text for a cell of a Markdown table, in which nothing of it is markup."""
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:
        parts = ["\\`".join(parts)]
    return "`".join(
        part.replace("|", "\\|") if number % 2 else re.sub(r"([*_<>|~\[\]])", r"\\\1", part)
        for number, part in enumerate(parts)
    )


def main() -> None:
    """Write docs/reference/errors.md."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
