"""Read YAML files with the same types as the Pulumi CLI, and reject ambiguous content.

Only `true` and `false` are booleans; `no` and `on` are strings, because the Pulumi CLI (3.250.0)
reads its files with gopkg.in/yaml.v3. Dates stay strings. A repeated key is an error, and so are
aliases that would expand without limit.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.base.nesting import bound_depth
from gpu_rules.faults import InputError, Location, show

SIZE_LIMIT = 8 * 1024 * 1024  # Maximum size of a file in bytes.
NODE_LIMIT = 400_000  # Maximum number of values after the expansion of aliases.


@dataclass(frozen=True)
class Document:
    """Content of a YAML file, and the line number of each value by its location."""

    value: Any
    lines: dict[Location, int]


class Tagged(str):
    """Text of a value with a tag of an application, such as Ansible's `!vault`."""


class _Loader(yaml.SafeLoader):
    """A safe loader with the implicit types of gopkg.in/yaml.v3 in place of PyYAML's."""


class _TaggedLoader(_Loader):
    """A loader like `_Loader`, which reads a value with an unknown tag as `Tagged`."""


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that quotes texts that gopkg.in/yaml.v3 or PyYAML would not read as texts."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _expression, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (
        "int",
        r"[-+]?(0|[1-9][0-9_]*)|0[0-7]+|0o[0-7]+|0x[0-9a-fA-F]+|0b[01]+",
        list("-+0123456789"),
    ),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+0123456789."),
    ),
    ("merge", r"<<", ["<"]),
):
    for _kind in (_Loader, _Dumper):
        _kind.add_implicit_resolver(
            f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_expression})$"), _first
        )


def read(path: Path) -> Document:
    """Return the content of a YAML file.

    Raises:
        InputError: The file can't be read, is too large, or contains invalid YAML.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{error.strerror or error}".lower(), "a stack file", f"check the name {path.name}"
        ) from None
    if len(raw) > SIZE_LIMIT:
        cure = "write ranges of nodes, such as gpu-[1-100], in place of single names"
        raise InputError(f"{len(raw)} bytes", f"at most {SIZE_LIMIT} bytes", cure)
    try:
        return parse(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError("bytes that are not UTF-8", "UTF-8", "save it as UTF-8", line) from None


def _construct_tagged(loader: yaml.SafeLoader, tag: str, node: yaml.Node) -> Tagged:
    return Tagged(node.value if isinstance(node, yaml.ScalarNode) else tag)


_TaggedLoader.add_multi_constructor("!", _construct_tagged)


def parse(text: str, *, tags: bool = False) -> Document:
    """Return the content of a YAML text.

    Args:
        text: The YAML text.
        tags: Read a value with a tag of an application as `Tagged`; otherwise it is an error.

    Raises:
        InputError: The text is invalid YAML or has too many values.
    """
    _bound_depth(text)
    try:
        loader = (_TaggedLoader if tags else _Loader)(text)
    except yaml.YAMLError as error:  # PyYAML raises ReaderError for a control character.
        raise _syntax_fault(error, text) from None
    try:
        node = loader.get_single_node()
        if node is None:
            return Document(None, {})
        lines: dict[Location, int] = {}
        _check_node(node, (), lines, set(), [0])
        return Document(loader.construct_document(node), lines)
    except yaml.YAMLError as error:
        raise _syntax_fault(error, text) from None
    # PyYAML raises ValueError for a number or date that Python can't represent.
    except ValueError as error:
        raise InputError(
            show(str(error)),
            "numbers and dates that Python can represent",
            "put the value in quotes if it is text",
        ) from None
    except RecursionError:
        raise InputError(*_DEEP) from None
    finally:
        loader.dispose()


_DEEP = ("values nested hundreds of levels deep", "a flat document", "remove the nesting")


def _bound_depth(text: str) -> None:
    """Refuse a text with deeply nested values, which takes PyYAML's own parser quadratic time.

    Raises:
        InputError: The values are nested too deeply.
    """
    try:
        bound_depth(text)
    except (yaml.YAMLError, UnicodeEncodeError):
        return  # The next parser, which builds the values, reports this fault with its line.
    except ValueError:
        raise InputError(*_DEEP) from None


def dump(value: Any) -> str:
    """Return a value as YAML that `parse` and the Pulumi CLI read as the same value.

    Args:
        value: Mappings with text keys, lists, texts, numbers and truth values.
    """
    # Copy the value, because PyYAML writes objects that occur twice as anchors and aliases.
    return yaml.dump(json.loads(json.dumps(value)), Dumper=_Dumper, sort_keys=False, width=100)


def node_of(text: str) -> yaml.Node | None:
    """Return the root node of a YAML text, with line numbers; None for an empty text.

    Call this only with a text that `parse` accepts.
    """
    return yaml.compose(text, Loader=_Loader)


def _check_node(
    node: yaml.Node, at: Location, lines: dict[Location, int], above: set[int], count: list[int]
) -> None:
    """Record line numbers; reject repeated keys, endless aliases and too many values."""
    line = node.start_mark.line + 1
    lines.setdefault(at, line)
    count[0] += 1
    if id(node) in above:
        raise InputError("an alias inside its own anchor", "a finite document", "remove it", line)
    if count[0] > NODE_LIMIT:
        raise InputError(
            f"more than {NODE_LIMIT} values once aliases are written out",
            "a document with fewer values",
            "remove aliases inside of aliased values",
            line,
        )
    above.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _check_node(item, (*at, index), lines, above, count)
    elif isinstance(node, yaml.MappingNode):
        line_of: dict[str, int] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            line_number = key.start_mark.line + 1
            if name in line_of and not key.tag.endswith(":merge"):
                raise InputError(
                    f"the key {show(name)} twice, first in line {line_of[name]}",
                    "each key once in a mapping",
                    "remove the second one",
                    line_number,
                )
            line_of[name] = line_number
            lines[(*at, name)] = line_number
            _check_node(value, (*at, name), lines, above, count)
    above.discard(id(node))


_WIDE_COLON = "\uff1a"
_SYNTAX = (
    (
        re.compile(r"character '\\t'"),
        ("a tab", "blanks: YAML takes no tab before a key", "replace each tab by two blanks"),
    ),
    (
        re.compile(r"expected <block end>, but found '<block mapping start>'"),
        (
            "a line that is indented as none above it",
            "keys of one mapping one below the other",
            "give this line the indentation of its neighbours",
        ),
    ),
    (
        re.compile(r"expected <block end>, but found '(?:-|<block sequence start>)'"),
        (
            "an item of a list where a key belongs",
            "a key and its value, or a list below a key",
            "indent the item below its key",
        ),
    ),
    (
        re.compile(r"mapping values are not allowed here"),
        (
            "a second colon in one value, or a line that is indented too far",
            "one key and one value",
            "quote the value, or move the line to the left",
        ),
    ),
    (
        re.compile(r"expected ',' or '[\]}]'|expected the node content"),
        (
            "a list [ or a mapping { that isn't closed",
            "a closing bracket, and commas between values",
            "close it, or write each value on a line of its own",
        ),
    ),
    (
        re.compile(r"could not find expected ':'"),
        ("a key without a colon", "a key, a colon and a blank", "write the colon after the key"),
    ),
    (
        re.compile(r"found unexpected end of stream"),
        ("a quote that isn't closed", "a closing quote", "close the quote"),
    ),
)
"""What PyYAML's words mean, and what to do (PyYAML 6, scanner.py and parser.py)."""


def _syntax_fault(error: yaml.YAMLError, text: str) -> InputError:
    """Return the fault of a text that is not YAML, in words that its author understands."""
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark is not None else None
    problem = str(getattr(error, "problem", None) or "text that isn't YAML")
    # A line without a colon that YAML recognizes continues the text of the previous line.
    lines = text.splitlines()
    for number in (line, line - 1) if line else ():
        if 0 < number <= len(lines) and _WIDE_COLON in lines[number - 1]:
            colon = f"a full-width colon ({_WIDE_COLON})"
            return InputError(colon, "a colon and a blank", "write `: ` in its place", number)
    for words, (found, wanted, cure) in _SYNTAX:
        if words.search(problem):
            return InputError(found, wanted, cure, line)
    wanted = "YAML with plain texts, numbers, lists and mappings"
    cure = "write `key: value`, `- ` before each item, and texts with `: ` or ` #` in quotes"
    return InputError(problem.removeprefix("found "), wanted, cure, line)
