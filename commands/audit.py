"""`make audit`: known weaknesses of what is used, of the workflows, and secrets in the history.

Each part says so where its program or its database can't be had: that isn't a finding, nor a proof
either. ``AUDIT=strict`` makes it a failure, as in CI.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from commands import secret_scan
from commands.environment import ROOT
from policies.printable import printable_lines

LIMIT = 600
"""Seconds for one program."""
TOOLS = ROOT / "venv-audit" / "bin"
_IMPORTED = re.compile(r'^\s*(?:import )?_ "([^"]+)"$', re.MULTILINE)
GOVULNCHECK = "golang.org/x/vuln/cmd/govulncheck@v1.1.4"
FOUND = {"go": 3}
"""Exit code for findings, where a program has one of its own (golang.org/x/vuln v1.1.4
internal/scan/errors.go): any other is a failure of the program."""
_UNREACHED = ("connection", "timed out", "resolve", "unreachable", "lookup", "dial tcp",
              "name resolution", "404", "403", "max retries")  # fmt: skip


@dataclass(frozen=True)
class AuditResult:
    """Of one part. ``judged``: whether it could look; ``text``: what it found, or why not."""

    name: str
    judged: bool
    clean: bool
    text: str = ""

    def __str__(self) -> str:
        state = "not judged" if not self.judged else "nothing found" if self.clean else "found"
        return f"{self.name}: {state}" + (f"\n{self.text}" if self.text else "")


def _program(name: str, command: list[str], folder: Path = ROOT) -> AuditResult:
    """Runs one program; a failure to reach its database isn't taken for a finding."""
    program = shutil.which(command[0], path=f"{TOOLS}{os.pathsep}{os.environ.get('PATH', '')}")
    if program is None:
        return AuditResult(name, judged=False, clean=False, text=f"found no {command[0]}")
    try:
        done = subprocess.run(
            [program, *command[1:]],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return AuditResult(name, judged=False, clean=False, text=f"no answer in {LIMIT} s")
    text = printable_lines((done.stdout + done.stderr).strip())
    if done.returncode == 0:
        return AuditResult(name, judged=True, clean=True)
    lowered = done.stderr.lower()
    reached = not any(word in lowered for word in _UNREACHED)
    own = FOUND.get(command[0])  # `go run` ends with 1 and says what the program ended with
    failed = own is not None and f"exit status {own}" not in lowered
    return AuditResult(name, judged=reached and not failed, clean=False, text=text[-4000:])


def _secrets() -> AuditResult:
    lines = secret_scan.scan()
    return AuditResult("secret scan", judged=True, clean=not lines, text="\n".join(lines))


def _workflows() -> AuditResult:
    command = ["zizmor", "--offline", "--no-progress", "--min-severity", "medium", ".github"]
    return _program("zizmor (workflows)", command)


def _python() -> AuditResult:
    command = ["pip-audit", "--require-hashes", "--disable-pip", "--progress-spinner", "off"]
    return _program("pip-audit (requirements.lock)", [*command, "-r", "requirements.lock"])


def programs(module: Path) -> list[str]:
    """What govulncheck looks at: the programs that ``tools.go`` pins, else the module's own."""
    tools = module / "tools.go"
    return _IMPORTED.findall(tools.read_text()) if tools.exists() else ["./..."]


def _go(module: Path) -> AuditResult:
    command = ["go", "run", GOVULNCHECK, "-scan", "package", *programs(module)]
    return _program(f"govulncheck ({module.name})", command, module)


def parts() -> list[Callable[[], AuditResult]]:
    """All parts, in the order in which they are shown."""
    modules = sorted(file.parent for file in (ROOT / "toolchain" / "go").glob("*/go.mod"))
    in_go = ((lambda module=module: _go(module)) for module in modules)
    return [_secrets, _workflows, _python, *in_go]


def main() -> None:
    """Prints each part; exit code 1 if one found anything, with `AUDIT=strict` if one couldn't."""
    results = []
    for part in parts():
        results.append(part())
        print(results[-1], flush=True)
    weak = [result for result in results if result.judged and not result.clean]
    unseen = [result for result in results if not result.judged]
    print(
        f"audit: {len(results)} parts, {len(weak)} with findings, {len(unseen)} not judged"
        + (f" ({', '.join(result.name for result in unseen)})" if unseen else "")
    )
    sys.exit(bool(weak) or (os.environ.get("AUDIT") == "strict" and bool(unseen)))


if __name__ == "__main__":
    main()
