"""Entry point shared by the programs that Pulumi Commands run: JSON in, action, JSON out."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, TypeVar

from gpu_cluster.kubernetes.kubeconfig_contexts import given
from gpu_cluster.requests import opened, read, write
from gpu_rules.faults import Fault, FaultError
from gpu_rules.printable import printable_lines

T = TypeVar("T")


def main(
    kind: type[T] | UnionType, actions: Mapping[str, Callable[[T], Coroutine[Any, Any, Any]]]
) -> None:
    """Run the action that the first argument names, with the request on standard input.

    If the request encloses a kubeconfig, the action uses that kubeconfig; it is never written to a
    file. The result is printed on standard output as JSON. A `FaultError` is printed on standard
    error, with exit code 1.

    Args:
        kind: Class of the request, which pydantic parses from standard input; or several classes.
        actions: Functions of the program, by action name.
    """
    try:
        kubeconfig, text = opened(sys.stdin.read())
        with given(kubeconfig):
            action = _action(actions)
            request: T = read(kind, text)
            result = asyncio.run(action(request))
    except FaultError as error:
        print(printable_lines(str(error)), file=sys.stderr)
        sys.exit(1)
    if is_dataclass(result):
        sys.stdout.write(write(result))
    else:
        json.dump(result, sys.stdout, separators=(",", ":"), sort_keys=True)


def _action(
    actions: Mapping[str, Callable[[T], Coroutine[Any, Any, Any]]],
) -> Callable[[T], Coroutine[Any, Any, Any]]:
    name = sys.argv[1] if len(sys.argv) > 1 else "none"
    if name not in actions:
        raise FaultError(
            Fault(
                "program",
                f"the action {name}",
                f"one of {', '.join(actions)}",
                "run it as the Command in the state does: `gpu-cluster-program NAME ACTION`",
            )
        )
    return actions[name]
