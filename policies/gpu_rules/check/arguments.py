"""The command-line arguments of the manifest checker."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ..parser import Parser
from ..rules import RULES, Severity
from ..rules.own_rules import OWN
from .context import FILE
from .formats import FORMATS

EPILOG = """\
exit code: 0 no violations, 1 violations, 2 something could not be read or the arguments are wrong
examples:
  gpu-rules check manifests/
  helm template chart --values prod.yaml | gpu-rules check - --rule GPU022=mandatory
  gpu-rules check . --output json=known.json; gpu-rules check . --baseline known.json
"""


UNJUDGED = "unjudged"
"""Value of `--fail-on`: exit code 1 also for requests for GPUs in a form that no rule reads."""


class CheckScope(StrEnum):
    """Scope of a check: manifests one by one, or in addition all manifests as one stack."""

    STACK = "stack"
    OBJECT = "object"


@dataclass(frozen=True)
class Arguments:
    """The parsed command line of the manifest checker."""

    paths: tuple[str, ...]
    stack: str | None
    config: Path | None
    format: str
    fail_on: Severity
    fail_on_unjudged: bool
    scope: CheckScope
    namespace: str
    severities: dict[str, Severity]
    outputs: tuple[tuple[str, Path], ...]
    baseline: Path | None
    mixed: bool
    render: bool
    observed: bool
    ignored_paths: tuple[str, ...]
    lists_all: bool


def parse(argv: Sequence[str] | None) -> Arguments:
    """Parse the command line of the checker; exit with code 2 if an argument is invalid."""
    parser = Parser(
        prog="python -m gpu_rules.check",
        description="Check Kubernetes manifests with the GPU rules.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_to(parser)
    return of(parser.parse_args(argv))


def add_to(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the checker to a parser, for commands that include a check."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="file, folder, pattern or -")
    parser.add_argument("--stack", help="read the pools and the platform from Pulumi.STACK.yaml")
    add_config_to(parser)
    parser.add_argument(
        *("--ignore-paths", "--skip-path"),
        action="append",
        default=[],
        metavar="PATTERN",
        help="file or folder that is left out, such as testdata/ or 'vendor/**'; may be repeated",
    )
    parser.add_argument(
        "--mixed",
        action="store_true",
        help="skip named files that are not manifests, as in folders; default: report an error",
    )
    parser.add_argument(
        "--no-render",
        action="store_true",
        help="only list charts and kustomizations; default: render them with helm, and with "
        "kustomize or kubectl, if these are on PATH",
    )
    parser.add_argument(
        "--observed",
        action="store_true",
        help="the objects were read from a cluster: what the system wrote, such as the node of a "
        "pod, is not judged; default: only for a List of an API server on standard input",
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="default: text")
    parser.add_argument(
        "--all",
        action="store_true",
        help="list each place of advice in the text; default: advice that a rule gives in many "
        "places is listed once and counted",
    )
    parser.add_argument(
        "--output",
        action="append",
        default=[],
        type=_output,
        metavar="FORMAT=FILE",
        help="also write the report to a file in another format; may be repeated",
    )
    parser.add_argument(
        "--baseline",
        type=Path,
        metavar="FILE",
        help="JSON report of an earlier run: violations that it contains don't fail this run",
    )
    parser.add_argument(
        "--fail-on",
        choices=[str(Severity.MANDATORY), str(Severity.ADVISORY), UNJUDGED],
        action="append",
        default=[],
        help="lowest severity that ends with exit code 1; default: mandatory; or unjudged: GPU "
        "requests that no rule can read; may be repeated",
    )
    parser.add_argument(
        "--scope",
        choices=[str(scope) for scope in CheckScope],
        default=str(CheckScope.STACK),
        help="stack (default): check all manifests together, too; object: check each alone",
    )
    parser.add_argument(
        "--namespace",
        default="",
        metavar="NAME",
        help="namespace of objects that name none, as for kubectl apply; default: none",
    )
    parser.add_argument(
        "--rule",
        action="append",
        default=[],
        type=_severity,
        metavar="ID=LEVEL",
        help="severity of a rule: mandatory, advisory or off; may be repeated",
    )


def add_config_to(parser: argparse.ArgumentParser) -> None:
    """Add the argument `--config` to a parser; it names the file with settings of the rules."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"file with settings; default: {FILE} in this folder or above it in the repository",
    )


def of(given: argparse.Namespace) -> Arguments:
    """Convert the result of a parser with the checker's arguments."""
    return Arguments(
        paths=tuple(given.paths),
        stack=given.stack,
        config=given.config,
        format=given.format,
        fail_on=(
            Severity.ADVISORY if str(Severity.ADVISORY) in given.fail_on else Severity.MANDATORY
        ),
        fail_on_unjudged=UNJUDGED in given.fail_on,
        scope=CheckScope(given.scope),
        namespace=given.namespace,
        severities=dict(given.rule),
        outputs=tuple(given.output),
        baseline=given.baseline,
        mixed=given.mixed,
        render=not given.no_render,
        observed=given.observed,
        ignored_paths=tuple(given.ignore_paths),
        lists_all=given.all,
    )


def _severity(argument: str) -> tuple[str, Severity]:
    id_, _, level = argument.partition("=")
    if id_ not in RULES and not OWN.fullmatch(id_):
        raise argparse.ArgumentTypeError(
            f"no rule {id_!r}; wanted: one of `gpu-rules list`; cure: write an id of that list"
        )
    if level not in tuple(Severity):
        raise argparse.ArgumentTypeError(
            f"found {level!r}; wanted: {', '.join(Severity)}; cure: write one of these, such as "
            "GPU001=advisory"
        )
    return id_, Severity(level)


def _output(argument: str) -> tuple[str, Path]:
    format_, _, name = argument.partition("=")
    if format_ not in FORMATS or not name:
        wanted = f"FORMAT=FILE with {', '.join(FORMATS)}"
        raise argparse.ArgumentTypeError(
            f"found {argument!r}; wanted: {wanted}; cure: write it in this form"
        )
    return format_, Path(name)
