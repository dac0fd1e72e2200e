"""Build tools from their pinned Go modules."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_cluster.machine.tool import ToolchainError

from . import embeds, golang, kinds
from .modules import SDK, UNLISTED, Module
from .pins import Pin
from .progress import Steps

# Time limit of one ``go`` command in seconds; a full build on one slow core takes less.
BUILD_LIMIT = 3600
_TAIL = 12
_ERRORS = re.compile(r'^\s*"Error": "(.*)",?$', re.MULTILINE)
_TYPICAL_CORES = 2


@dataclass(frozen=True)
class Load:
    """Amount of work of a Go build.

    Attributes:
        packages: Number of Go packages that the build needs.
        stale: Number of these packages that are not in Go's build cache and have to be compiled.
        flags: Flags of the ``go build`` command.
    """

    packages: int
    stale: int
    flags: tuple[str, ...]

    @property
    def share(self) -> float:
        """Return how much of a full build has to be done, from 0 (nothing) to 1 (everything)."""
        return self.stale / self.packages if self.packages else 1.0


@dataclass(frozen=True)
class Builder:
    """Builds tools from Go modules.

    Attributes:
        go: Path of the Go command.
        folder: Folder for executables and generated files.
    """

    go: Path
    folder: Path

    def load(self, module: Module, pins: Sequence[Pin]) -> Load:
        """Download the modules that the tools need, and count the packages to compile."""
        flags = module.flags
        if module.plugin:
            sdk = self._source(module, SDK)
            modfile = kinds.write_sdk(module, sdk, self._folder(f"sdk-{module.name}"))
            flags = (*flags, f"-modfile={modfile}")
        arguments = ["list", "-deps", "-e", "-f", "{{.Stale}}", *flags, *_packages(pins)]
        answers = self._run(module, arguments).split()
        return Load(len(answers), answers.count("true"), flags)

    def build(
        self, module: Module, pins: Sequence[Pin], load: Load, steps: Steps
    ) -> dict[str, Path]:
        """Build tools of one module; return the paths of the executables by tool name.

        One ``go build`` builds all tools of a module, so that shared packages are compiled once,
        and one tool is linked while another one is compiled.

        Args:
            module: The Go module.
            pins: The tools to build.
            load: The amount of work, for the estimate of the remaining time.
            steps: Shows the progress.

        Raises:
            ToolchainError: The build failed; the message contains the compiler's last lines.
        """
        out = self._folder(f"bin-{module.name}")
        arguments = ["build", "-v", *load.flags, f"-ldflags={module.link_flags}", "-o", f"{out}/"]
        if module.plugin:
            folder = self._folder(f"embeds-{module.name}")
            overlay = embeds.write_overlay(module, self._source(module, UNLISTED), folder)
            arguments.append(f"-overlay={overlay}")
        names = ", ".join(pin.name for pin in pins)
        cores = os.cpu_count() or _TYPICAL_CORES
        seconds = module.seconds * load.share * _TYPICAL_CORES / cores
        with steps.step(f"building {names}", seconds, load.stale, "packages") as advance:
            self._stream(module, [*arguments, *_packages(pins)], advance)
        return {pin.name: out / pin.go.executable for pin in pins if pin.go is not None}

    def _folder(self, name: str) -> Path:
        new_folder = self.folder / name
        new_folder.mkdir()
        return new_folder

    def _source(self, module: Module, path: str) -> Path:
        """Download a required module if necessary; return its folder in Go's module cache."""
        module_info = json.loads(self._run(module, ["mod", "download", "-json", path]))
        return Path(module_info["Dir"])

    def _run(self, module: Module, arguments: list[str]) -> str:
        command = [str(self.go), *arguments]
        try:
            done = subprocess.run(
                command,
                cwd=module.folder,
                env=golang.environment(),
                capture_output=True,
                text=True,
                timeout=BUILD_LIMIT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _build_failure(module, command, str(error)) from error
        if done.returncode != 0:
            # `go mod download -json` writes its errors to standard output, as JSON.
            errors = "\n".join(_ERRORS.findall(done.stdout))
            raise _build_failure(module, command, done.stderr.strip() or errors)
        return done.stdout

    def _stream(self, module: Module, arguments: list[str], advance: Callable[[int], None]) -> None:
        command = [str(self.go), *arguments]
        last: deque[str] = deque(maxlen=_TAIL)
        process = subprocess.Popen(
            command,
            cwd=module.folder,
            env=golang.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        try:
            for done, line in enumerate(process.stderr or (), start=1):
                last.append(line.rstrip())
                advance(done)
            code = process.wait(timeout=BUILD_LIMIT)
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()
        if code != 0:
            raise _build_failure(module, command, "\n".join(last))


def _packages(pins: Sequence[Pin]) -> list[str]:
    return [pin.go.package for pin in pins if pin.go is not None]


def _build_failure(module: Module, command: list[str], output: str) -> ToolchainError:
    lines = " / ".join(line.strip() for line in output.strip().splitlines()[-_TAIL:])
    return ToolchainError(f"{module.folder}: `{' '.join(command[:2])}` failed: {lines}")
