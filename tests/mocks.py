"""Pulumi mocks for unit tests that record declared resources with their options."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pulumi
from pulumi.runtime import mocks, rpc

from gpu_cluster.change.document import ClusterChange
from gpu_cluster.inspection.difference import Difference
from gpu_cluster.inspection.judgement import Inspection


@dataclass
class Recorded:
    """Resource that a Pulumi program declared: type, name, inputs and options."""

    token: str
    name: str
    inputs: dict[str, Any]


@dataclass
class Recorder(mocks.Mocks):
    """Pulumi mocks that return outputs like real providers, and record each declared resource."""

    resources: list[Recorded] = field(default_factory=list)

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        self.resources.append(Recorded(args.typ, args.name, dict(args.inputs)))
        outputs = dict(args.inputs)
        if args.typ == "command:local:Command" and "validation validate" in args.inputs["create"]:
            outputs["stdout"] = '{"pool":"a100","nodes":[]}'
        elif args.typ.startswith("command:"):
            outputs["stdout"] = "{}"
        return f"{args.name}-id", outputs

    def call(self, args: mocks.MockCallArgs) -> dict[str, Any]:
        return {}

    def of(self, token: str) -> list[Recorded]:
        return [resource for resource in self.resources if resource.token == token]


# All tests share one event loop that is never closed. The mocked monitor responds in threads of the
# loop's executor, and Pulumi's SDK gives each thread an event loop that no one closes when the
# thread ends.
LOOP = asyncio.new_event_loop()


@contextmanager
def inspected(difference: Difference, change: ClusterChange | None = None) -> Iterator[None]:
    """While the context lasts, let the inspection of each `GpuCluster` find this difference."""
    found = (Inspection(difference=difference), change or ClusterChange(name="gpu-cluster"))
    with patch("gpu_cluster.cluster.inspect", lambda *_: found):
        yield


def declare(program: Any, *, preview: bool, recorder: Recorder | None = None) -> Recorder:
    """Run a Pulumi program with the mocks until all its resources are declared.

    Return the mocks with the recorded resources.
    """
    recorder = recorder or Recorder()
    asyncio.set_event_loop(LOOP)
    try:
        mocks.set_mocks(recorder, project="gpu-cluster", stack="test", preview=preview)
        pulumi.runtime.test(program)()
    finally:
        asyncio.set_event_loop(None)
    return recorder


def without_secrets(value: Any) -> Any:
    """Return a resource's inputs without secrets, which Pulumi encrypts and never displays."""
    if isinstance(value, dict):
        if rpc._special_sig_key in value:
            return "[secret]"
        return {key: without_secrets(below) for key, below in value.items()}
    return [without_secrets(below) for below in value] if isinstance(value, list) else value
