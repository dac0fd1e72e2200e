"""Command `gpu-rules`: check manifests, list or explain GPU rules, export admission policies."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

import yaml

from . import settings_file
from .admission import ACTIONS, TARGETS, Enforcement, exported, summary
from .check import __main__ as checker
from .check import arguments
from .check.context import ContextError, StackFinder, configured
from .check.files import SIZE_LIMIT
from .check.parse import documents
from .check.report import CLEAN, UNREADABLE
from .check.stream import decode
from .faults import Fault, InputError
from .kube.names import is_dns_label
from .parser import Parser
from .printable import printable
from .reference import described
from .rules import RULES, Context, Rule
from .rules.links import link
from .rules.registry import GROUPS, items
from .rules.unknown import mapping
from .version import VERSION

STACKS = "gpu_rules_stacks"
"""Group of entry points, each a function that reads the stack file of `check --stack`."""


def main(argv: Sequence[str] | None = None, find_stack: StackFinder | None = None) -> int:
    """Run the subcommand of `gpu-rules` that the arguments name, and return the exit code.

    Args:
        argv: Command-line arguments; None means `sys.argv[1:]`.
        find_stack: Function that reads the stack file of `check --stack`; None if no Pulumi project
            can read one.
    """
    arguments_given = _build_parser().parse_args(argv)
    if arguments_given.command == "settings":
        return _print_settings(arguments_given)
    if arguments_given.command == "check":
        return checker.check(arguments.of(arguments_given), find_stack)
    try:
        text = _output_text(
            arguments_given, configured(arguments_given.config, Path.cwd(), Context())
        )
        sys.stdout.write(text)
        sys.stdout.flush()
    except ContextError as error:
        print(error, file=sys.stderr)
        return UNREADABLE
    except BrokenPipeError:
        # The process that reads the output has closed the pipe. Python flushes standard output at
        # exit; with /dev/null in its place that causes no second error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREADABLE
    return CLEAN


def _print_settings(options: argparse.Namespace) -> int:
    try:
        if options.nodes:
            text = settings_file.of_nodes(_read_nodes())
        else:
            text = settings_file.schema() if options.schema else settings_file.complete()
    except InputError as error:
        fault = Fault("standard input", error.found, error.wanted, error.cure)
        print(ContextError(fault), file=sys.stderr)
        return UNREADABLE
    sys.stdout.write(text)
    return CLEAN


def _read_nodes() -> list[Mapping[str, object]]:
    """Return the Node objects on standard input.

    Raises:
        InputError: Standard input has no YAML or JSON, or no nodes.
    """
    values = map(mapping, documents(decode(sys.stdin.buffer.read(SIZE_LIMIT + 1))))
    nodes = [item for value in values for _, item in items(value) if item.get("kind") == "Node"]
    if not nodes:
        cure = "Run kubectl get nodes -o json | gpu-rules settings -"
        raise InputError("no nodes", "a list of nodes", cure)
    return nodes


def run() -> None:
    """Run `gpu-rules` as the entry point of the installed package.

    An installed package that can read stack files says so by an entry point (`gpu_rules_stacks`).
    """
    readers = metadata.entry_points(group=STACKS)
    sys.exit(main(find_stack=next((reader.load() for reader in readers), None)))


def _build_parser() -> Parser:
    parser = Parser(prog="gpu-rules", description="Rules for GPU workloads on Kubernetes.")
    parser.add_argument("--version", action="version", version=f"gpu-rules {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser(
        "check",
        help="check manifests",
        description="Check Kubernetes manifests with the GPU rules.",
        epilog=arguments.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_to(check)
    listed = commands.add_parser("list", help="list all rules with their severities")
    listed.add_argument(
        "--output", choices=["text", "json"], default="text", help="format (default: text)"
    )
    arguments.add_config_to(listed)
    settings = commands.add_parser(
        "settings",
        help="print a file with every setting, its schema, or the pools of a cluster",
        description="Print a complete .gpu-rules.yaml with the meaning of each setting. With the "
        "nodes of a cluster on standard input, print the settings for it: "
        "kubectl get nodes -o json | gpu-rules settings -",
    )
    settings.add_argument("nodes", nargs="?", choices=["-"], help="read nodes from standard input")
    settings.add_argument(
        "--schema", action="store_true", help="print the JSON schema of the file, for editors"
    )
    explain = commands.add_parser("explain", help="print the reason for a rule, with examples")
    explain.add_argument(
        "rule", metavar="RULE", type=str.upper, help="id of the rule, such as GPU001"
    )
    arguments.add_config_to(explain)
    _add_export_to(commands.add_parser("export", help="write the rules for a cluster's admission"))
    return parser


def _add_export_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        choices=TARGETS,
        help="; ".join(f"{name}: {target.title}" for name, target in TARGETS.items()),
    )
    parser.add_argument(
        "--list",
        action="store_true",
        help="only say which rules are judged, and which are not and why",
    )
    parser.add_argument(
        "--mode",
        choices=ACTIONS,
        default="warn",
        help="enforce: reject objects that break a mandatory rule; warn (default): only warn; "
        "audit: only log",
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        type=_check_namespace,
        metavar="NAMESPACE",
        help="exclude a namespace, in addition to kube-system; may be repeated",
    )
    arguments.add_config_to(parser)


def _output_text(options: argparse.Namespace, context: Context) -> str:
    match options.command:
        case "list" if options.output == "json":
            return (
                json.dumps([_described(rule, context) for rule in RULES.values()], indent=1) + "\n"
            )
        case "list":
            return "".join(
                f"{rule.id}  {rule.severity_in(context):<9}  {rule.title}\n"
                for rule in RULES.values()
            )
        case "explain":
            return _explain_rule(options.rule)
        case _:
            lines = [printable(line) for line in summary(options.target, context)]
            if options.list:
                return "".join(f"{line}\n" for line in lines)
            comment = "".join(f"# {line}\n" for line in lines)
            return comment + _export_text(options.target, options.mode, options.exclude, context)


def _described(rule: Rule, context: Context) -> dict[str, object]:
    """Return the data of a rule for programs."""
    return {
        "id": rule.id,
        "group": GROUPS.get(rule.id, "own"),
        "title": rule.title,
        "severity": str(rule.severity_in(context)),
        "needs": sorted(map(str, rule.needs)),
        "isOn": all(need.known(context) for need in rule.needs),
        "reason": rule.why,
        "source": rule.source,
        "link": link(rule.id),
    }


def _explain_rule(id_: str) -> str:
    if id_ not in RULES:
        cure = "see `gpu-rules list`"
        raise ContextError(Fault("explain", f"no rule {id_}", "the id of a rule", cure))
    return described(RULES[id_])


def _check_namespace(name: str) -> str:
    if not is_dns_label(name):
        raise argparse.ArgumentTypeError(
            f"found {name!r}; wanted: the name of a namespace; cure: write a name such as gpu-jobs"
        )
    return name


def _export_text(target: str, mode: str, excluded: Sequence[str], context: Context) -> str:
    namespaces = tuple(sorted({"kube-system", *excluded}))
    try:
        enforcement = Enforcement(ACTIONS[mode], excluded=namespaces)
        objects = exported(target, context, enforcement)
    except ValueError as error:
        place, _, text = str(error).partition(": found ")
        found, _, text = text.partition("; wanted: ")
        wanted, _, cure = text.partition("; cure: ")
        raise ContextError(Fault(place, found, wanted, cure)) from None
    # Some programs read no anchors and aliases; copies that share no object are written out.
    copies = json.loads(json.dumps(objects))
    return yaml.safe_dump_all(copies, sort_keys=False, explicit_start=True)
