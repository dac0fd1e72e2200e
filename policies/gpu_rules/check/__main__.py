"""Command `python -m gpu_rules.check PATH…`: check Kubernetes manifests against the GPU rules."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

from ..faults import Fault
from ..rules import RULES, Context
from . import arguments, baseline, files, rendered, together
from .context import FILE, ContextError, StackFinder, configured, find_config, of_stack
from .document import Source, is_server_list
from .formats import FORMATS
from .formats.text import show
from .ignored import anchored
from .pool import judge_all
from .problem import Problem, Unjudged
from .report import UNREADABLE, Report, Result
from .result import Once

_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None, find_stack: StackFinder | None = None) -> int:
    """Check the manifest files that the command line names, and return the exit code.

    Args:
        argv: Command-line arguments; None means `sys.argv[1:]`.
        find_stack: Function that reads the stack file of `--stack`; None if no Pulumi project can
            read one.
    """
    return check(arguments.parse(argv), find_stack)


def check(options: arguments.Arguments, find_stack: StackFinder | None = None) -> int:
    """Check the manifest files that the command line names, and return the exit code.

    Args:
        options: The parsed command line.
        find_stack: Function that reads the stack file of `--stack`; None if no Pulumi project can
            read one.
    """
    try:
        context = _context(options, find_stack)
        report = Report(options.fail_on, fail_on_unjudged=options.fail_on_unjudged)
        report.lists_all = options.lists_all
        results = _results(options, context, report)
        if options.baseline:
            earlier = baseline.read(options.baseline)
            report.add(earlier.marked(results))
            report.gone = earlier.left
        else:
            report.add(results)
        for format_, path in options.outputs:
            _save(report, format_, path)
        _write(report, options.format)
    except ContextError as error:
        print(error, file=sys.stderr)
        return UNREADABLE
    except BrokenProcessPool:
        print(
            "a worker process was killed, probably for lack of memory; check fewer files per run",
            file=sys.stderr,
        )
        return UNREADABLE
    except BrokenPipeError:
        # The process that reads the output has closed the pipe. Python flushes standard output at
        # exit; with /dev/null in its place that causes no second error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREADABLE
    except KeyboardInterrupt:
        return _INTERRUPTED
    return report.exit_code


def _context(options: arguments.Arguments, find_stack: StackFinder | None) -> Context:
    context = of_stack(options.stack, Path.cwd(), find_stack) if options.stack else Context()
    context = configured(options.config, Path.cwd(), context)
    if unknown := sorted(options.severities.keys() - RULES.keys()):
        wanted, cure = "a rule of `gpu-rules list` or of ruleFolder", "correct the id"
        raise ContextError(Fault(f"--rule {unknown[0]}", "no such rule", wanted, cure))
    return replace(
        context,
        observed=options.observed,
        namespace=options.namespace,
        severities={**context.severities, **options.severities},
    )


def _results(options: arguments.Arguments, context: Context, report: Report) -> Iterator[Result]:
    later: list[Problem | Unjudged] = []

    report.ignored.patterns = (*context.ignored_paths, *anchored(options.ignored_paths, "."))

    def names() -> Iterator[files.Name]:
        for name in files.find(options.paths, report.ignored):
            if isinstance(name, Problem):
                later.append(name)
            else:
                yield name if not options.mixed else replace(name, given=False)

    def read() -> Iterator[Source]:
        for entry in rendered.sources(names(), render=options.render):
            if isinstance(entry, Source):
                yield entry
            else:
                later.append(entry)

    sources: Iterable[Source] = read()
    if options.paths == (files.STDIN,):
        sources = list(sources)
        context = replace(context, observed=options.observed or is_server_list(sources))
    report.observed = context.observed
    whole = None
    if options.scope is arguments.CheckScope.STACK:
        sources = list(sources)
        context = together.with_claims(context, sources)
        whole = together.CheckedStack(context, sources, _settings_file(options))
    once = Once()
    for judged in judge_all(sources, context, keep=whole is not None):
        yield once.judged(whole.add(judged) if whole else judged)
    yield from later
    if whole:
        yield from whole.judge()


def _settings_file(options: arguments.Arguments) -> str:
    """Return the name of the file from which the checker has the cluster's pools."""
    if options.config:
        return str(options.config)
    default_file = find_config(Path.cwd())
    if default_file:
        return os.path.relpath(default_file)
    return f"Pulumi.{options.stack}.yaml" if options.stack else FILE


def _save(report: Report, format_: str, path: Path) -> None:
    try:
        path.write_text(FORMATS[format_](report), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        found, cure = (error.strerror or str(error)).lower(), "name a file in a folder of yours"
        fault = Fault(f"--output {format_}={path}", found, "a file that can be written", cure)
        raise ContextError(fault) from None


def _write(report: Report, format_: str) -> None:
    if format_ == "text" and sys.stdout.isatty():
        show(report)
        return
    if isinstance(sys.stdout, io.TextIOWrapper):
        # File names in the report may contain bytes that cannot be encoded as text.
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.stdout.write(FORMATS[format_](report))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
