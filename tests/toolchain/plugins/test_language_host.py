"""The project's own language host reports why an SDK can't be generated."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import grpc
import pytest
from pulumi.runtime.proto import language_pb2

from gpu_cluster.machine.tool import GO_MODULE, Tool, ToolchainError
from gpu_cluster_lab import toolchain
from gpu_cluster_lab.toolchain.plugins.language_host.server import LanguageHost

NAME = "pulumi-generate-python"


class Aborted(Exception):
    """The end of a call, with its status."""


class Context:
    """The context of a call, which ends it as gRPC does."""

    def abort(self, code: grpc.StatusCode, text: str) -> NoReturn:
        raise Aborted(code, text)


def generate() -> Any:
    return LanguageHost("").GeneratePackage(language_pb2.GeneratePackageRequest(), Context())


def test_a_generator_that_cannot_be_had_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def ensure(*names: str) -> NoReturn:
        raise ToolchainError(f"{names[0]}: no Go compiler")

    monkeypatch.setattr(toolchain, "ensure", ensure)
    with pytest.raises(Aborted) as caught:
        generate()
    assert caught.value.args == (grpc.StatusCode.UNAVAILABLE, f"{NAME}: no Go compiler")


def test_what_the_generator_writes_is_the_cause_or_the_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / NAME
    tool = Tool(NAME, "1.0.0", GO_MODULE, program)
    monkeypatch.setattr(toolchain, "ensure", lambda *names: {NAME: tool})
    program.write_text("#!/bin/sh\necho 'no package' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(Aborted) as caught:
        generate()
    assert caught.value.args == (grpc.StatusCode.INTERNAL, "no package\n")
    program.write_text("#!/bin/sh\nexec cat\n")
    assert generate() == language_pb2.GeneratePackageResponse()
