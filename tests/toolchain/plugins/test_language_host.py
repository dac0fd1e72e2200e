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


def program(folder: Path, **options: Any) -> Any:
    """Return the message that describes a program in a folder, with an SDK."""
    sdk = folder / "sdks" / "cloud" / "pulumi_cloud"
    sdk.mkdir(parents=True, exist_ok=True)
    (sdk / "pulumi-plugin.json").write_text("{}")
    info = language_pb2.ProgramInfo(root_directory=str(folder), program_directory=str(folder))
    info.options.update(options)
    return info


def link(info: Any) -> Any:
    packages = [language_pb2.LinkRequest.LinkDependency(path="sdks/cloud")]
    return LanguageHost("").Link(language_pb2.LinkRequest(info=info, packages=packages), Context())


def test_an_sdk_is_added_to_the_requirements_once(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("pulumi==3.272.0\n# a comment\nother")
    for _ in range(2):
        shown = link(program(tmp_path)).import_instructions
        assert "  import pulumi_cloud\n" in shown
        assert file.read_text() == "pulumi==3.272.0\n# a comment\nother\nsdks/cloud\n"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"toolchain": "uv"}, "runtime.options.toolchain: found .uv.; wanted: pip"),
        ({}, "requirements.txt: found no such file"),
    ],
)
def test_a_program_that_takes_no_sdk_is_named_and_unchanged(
    options: dict[str, Any], text: str, tmp_path: Path
) -> None:
    with pytest.raises(Aborted, match=text) as caught:
        link(program(tmp_path, **options))
    assert caught.value.args[0] == grpc.StatusCode.FAILED_PRECONDITION
    assert not (tmp_path / "requirements.txt").exists()
