"""Collect the texts of the product's errors, and write docs/reference/errors.md: `make errors`.

An error is a call that makes a fault (place, found, wanted, cure), an exception with a text, or a
`fail` of a host's script. What a text takes from its surroundings stands as `…` on the page.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
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
PLACELESS = ("refuse", "InputError", "_error", "tell")
"""Functions whose arguments are found, wanted and cure."""
STAGED = ("failure",)
"""Methods whose arguments are stage, found and cure."""
UNNAMED = ("AssertionError", "NotImplementedError", "TypeError", "LookupError", "EOFError")
"""Exceptions that no user sees, because a caller handles them or they are faults of the program."""
OPEN = "…"
_COMMAND = r"\$\((?:[^()]|\([^()]*\))*\)"
_FAIL = re.compile(rf'^[^#\n]*?\bfail "((?:[^"\\$]|\\.|\$(?!\()|{_COMMAND})*)"', re.M)
HEAD = """\
# Error texts

Each error text of this program, written by `make errors` from the code. `…` stands for a name, a
number or another value of your run. A fault has one form everywhere:
`place: found …; wanted: …; cure: …`. Search the page for some words of the message. Messages of
nodes, pods, hosts and other programs are in [troubleshooting](../how-to/troubleshooting.md).
"""


@dataclass(frozen=True)
class ErrorText:
    """Text of an error, with `…` for what the surroundings fill in.

    Attributes:
        file: Path of the file that has the text, relative to the project.
        text: What the user sees.
        cure: What the user should do; empty if the text itself says it, or nothing does.
    """

    file: str
    text: str
    cure: str = ""

    @property
    def subject(self) -> str:
        """Return the heading under which the page lists the text."""
        fitting = [folder for folder in SUBJECTS if self.file.startswith(f"{folder}/")]
        return SUBJECTS[max(fitting, key=len)]


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
    for scope in _functions(ast.parse(text)):
        known = _assigned(scope)
        calls = [node for node in ast.walk(scope) if isinstance(node, ast.Call)]
        for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
            if (made := _of_call(name, call, known)) is not None:
                yield made


def of_script(name: str, text: str) -> Iterator[ErrorText]:
    """Yield the error texts of a shell script: the arguments of `fail`.

    Args:
        name: Path of the script, relative to the project.
        text: Source text of the script.
    """
    for match in _FAIL.finditer(text):
        shown = re.sub(rf"{_COMMAND}|\$\{{[^}}]*\}}|\$\w+|\$[*@#?]", OPEN, match[1])
        if _has_words(shown := re.sub(r"\\(.)", r"\1", shown)):
            yield ErrorText(name, shown)


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
    parts = [shown(each, known) for each in call.args if not isinstance(each, ast.Starred)]
    named = {each.arg: shown(each.value, known) for each in call.keywords if each.arg}
    if called in (*WHOLE, *PLACELESS):
        parts = parts[1:] if called in WHOLE else parts
        found, wanted, cure = (*parts[:3], *[""] * (3 - len(parts[:3])))
        found, wanted = named.get("found", found), named.get("wanted", wanted)
        text = "; ".join(
            f"{word} {part}" for word, part in (("found", found), ("wanted:", wanted)) if part
        )
        cure = named.get("cure", cure)
        wordy = _has_words(found) or _has_words(wanted)
        return ErrorText(name, text, "" if cure == OPEN else cure) if wordy else None
    if called in STAGED and len(parts) > 1 and _has_words(parts[1]):
        cure = parts[2] if parts[2:] and parts[2] != OPEN else ""
        return ErrorText(name, f"stage {parts[0]}: {parts[1]}", cure)
    if called.endswith(("Error", "Failed", "Refused")) and called not in UNNAMED and parts:
        return ErrorText(name, parts[0]) if _has_words(parts[0]) else None
    return None


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
                f'| <a id="{named[one]}"></a>{_cell(one.text)} | {_cell(one.cure)} |' for one in own
            ]
            lines.append("")
    return "\n".join(lines)


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
