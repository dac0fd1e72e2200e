"""The command line `gpu-cluster`: reads the arguments, then imports and runs one verb.

Reading arguments and printing help must be fast, so this module imports Pulumi, pydantic and the
verbs' modules only to run a verb. A library that imports `inspect` would take longer than the limit
(docs/explanation/benchmarks.md, B11).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from gpu_cluster.commands.verbs import BY_NAME, OUTPUT, SHARED, VERBS, Option, Verb
from gpu_rules.parser import WRONG, Parser, nearest

PROGRAM = "gpu-cluster"
LIST_STACKS = "ls | sed -n '/^Pulumi[.].*[.]yaml/{s/^Pulumi[.]//;s/[.]yaml//p;}'"
"""Command of each shell that lists the stacks of the folder."""


def run() -> NoReturn:
    """Run the command as the entry point of the package."""
    sys.exit(main(sys.argv[1:]))


def main(words: Sequence[str]) -> int:
    """Run the verb that the arguments name; return the exit code.

    Args:
        words: The arguments after the program's name.
    """
    if words[:1] == ["--version"]:
        from gpu_rules.version import VERSION

        print(f"{PROGRAM} {VERSION}")
        return 0
    verb = BY_NAME.get(words[0]) if words else None
    if verb and verb.passes_on and words[1:2] and words[1] in verb.options[0].choices:
        return int(_function(verb)(list(words[1:])) or 0)
    verb, chosen = read(words)
    share(verb, chosen)
    if verb.has_stack and verb.needs_stack:
        from gpu_cluster.commands.project import require_stack_file

        require_stack_file(os.environ["STACK"])
    return int(_function(verb)(**chosen) or 0)


def read(words: Sequence[str]) -> tuple[Verb, dict[str, Any]]:
    """Return the verb of a command line, and its options by the names of the parameters.

    Wrong arguments end the program; the message names the nearest right word.
    """
    if not words or words[0] not in BY_NAME:
        parser = program_parser()
        if not words:
            parser.print_help()
            parser.exit(WRONG)
        if not words[0].startswith("-"):
            parser.error(f"no verb {words[0]!r}{nearest(words[0], BY_NAME)}")
        parser.parse_args(words)
        parser.error("no verb")
    verb = BY_NAME[words[0]]
    parser = Parser(prog=f"{PROGRAM} {verb.name}", **presentation(verb))
    add_options(parser, verb)
    return verb, vars(parser.parse_args(words[1:]))


def share(verb: Verb, chosen: dict[str, Any]) -> None:
    """Move the options that all verbs have to the environment, where each part reads them.

    The environment has their defaults, too: ``STACK=prod`` in a job of CI is for all its commands.
    """
    for name in ("stack", "embedded", "verbose", "output"):
        value = chosen.pop(name, None)
        variable = "JSON" if name == "output" else name.upper()
        if name == "output" and value:
            os.environ[variable] = "1" if value == "json" else ""
        elif value:
            os.environ[variable] = "1" if value is True else value
    if verb.needs_stack:
        os.environ.setdefault("STACK", "dev")


def options_of(verb: Verb) -> tuple[Option, ...]:
    """Return all options of a verb: its own, and those that it shares with others."""
    shared = SHARED if verb.has_stack else ()
    return (*verb.options, *shared, *((OUTPUT,) if verb.has_data else ()))


def program_parser() -> Parser:
    """Return the parser of the options that stand in place of a verb."""
    parser = Parser(
        prog=PROGRAM,
        description="Turn bare hosts into a Kubernetes cluster in which each GPU has run a kernel.",
        usage=f"{PROGRAM} VERB [options]",
        epilog=_listed(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version="", help="print the version")
    return parser


def whole_parser() -> Parser:
    """Return the parser of the program with all its verbs, for completion."""
    parser = program_parser()
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", help="what to do")
    for verb in VERBS:
        add_options(verbs.add_parser(verb.name, help=verb.text, **presentation(verb)), verb)
    return parser


def presentation(verb: Verb) -> dict[str, Any]:
    """Return the arguments of a verb's parser that control the format of its help."""
    return {
        "description": f"{verb.text[0].upper()}{verb.text[1:]}.",
        "usage": " ".join([PROGRAM, verb.name, *_positions(verb), "[options]"]),
        "epilog": "\n".join(["examples:", *(f"  {PROGRAM} {words}" for words in verb.examples)]),
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }


def _positions(verb: Verb) -> list[str]:
    return [
        f"[{option.value} ...]" if option.is_repeated else option.value
        for option in verb.options
        if option.is_position
    ]


def add_options(parser: argparse.ArgumentParser, verb: Verb) -> None:
    """Add the options of a verb to its parser."""
    if isinstance(parser, Parser):
        parser.wrong = verb.wrong
    for option in options_of(verb):
        _add_option(parser, option)


def _add_option(parser: argparse.ArgumentParser, option: Option) -> None:
    if option.is_position:
        number: dict[str, Any] = {"nargs": "*", "default": ()} if option.is_repeated else {}
        action = parser.add_argument(
            option.parameter, metavar=option.value, help=option.text,
            choices=option.choices or None, **number,
        )  # fmt: skip
    elif option.value:
        short = ("-s",) if option.name == "stack" else ()
        action = parser.add_argument(
            *short, f"--{option.name}", dest=option.parameter, metavar=option.value,
            help=option.text, default="", choices=option.choices or None,
        )  # fmt: skip
    else:
        action = parser.add_argument(
            f"--{option.name}", dest=option.parameter, help=option.text, action="store_true"
        )
    action.kind = option.kind  # type: ignore[attr-defined]


def _listed() -> str:
    """Return the list of verbs, by their groups."""
    lines: list[str] = []
    width = max(len(verb.name) for verb in VERBS)
    for verb in VERBS:
        heading = f"{verb.group}:"
        if heading not in lines:
            lines += ["", heading]
        lines.append(f"  {verb.name:{width}}  {verb.text}")
    return "\n".join([*lines[1:], "", f"`{PROGRAM} VERB --help` shows the options and an example."])


def _function(verb: Verb) -> Any:
    """Import the module of a verb; return the function that runs the verb."""
    import importlib

    from gpu_cluster.commands import failure

    failure.VERB = verb.name
    sys.excepthook = failure.show
    module, name = verb.function
    return getattr(importlib.import_module(module, __package__), name)


def print_completion(shell: str) -> None:
    """Print the completion of a shell."""
    import shtab

    parser = whole_parser()
    ways = {"file": shtab.FILE, "stack": shtab.cmd(LIST_STACKS)}
    parsers: Any = next(
        parser_action.choices for parser_action in parser._actions if parser_action.dest == "verb"
    )
    for of_verb in parsers.values():
        for action in of_verb._actions:
            if way := ways.get(getattr(action, "kind", "")):
                action.complete = way
    print(shtab.complete(parser, shell))
