"""Program of `make audit`: scan dependencies, workflows and the git history.

It looks for known vulnerabilities in Python packages and Go modules, for weaknesses in the GitHub
workflows, and for secrets in the git history. A scan whose program is not installed, or whose
vulnerability database cannot be reached, is reported as "not judged": neither as a finding nor as a
success. With ``AUDIT=strict``, as in CI, such a scan makes the command fail.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gpu_cluster.commands.files import ROOT
from gpu_rules.printable import printable_lines
from maintenance import secret_scan

LIMIT = 600
"""Time limit of one scanner in seconds."""
TOOLS = ROOT / "venv-audit" / "bin"
_IMPORTED = re.compile(r'^\s*(?:import )?_ "([^"]+)"$', re.MULTILINE)
GOVULNCHECK = "golang.org/x/vuln/cmd/govulncheck@v1.1.4"
FOUND = {"go": 3}
"""Exit codes that mean "vulnerabilities found", by program.

Source: golang.org/x/vuln v1.1.4, internal/scan/errors.go. Any other exit code except 0 means that
the program itself failed.
"""
_UNREACHED = ("connection", "timed out", "resolve", "unreachable", "lookup", "dial tcp",
              "name resolution", "404", "403", "max retries")  # fmt: skip


@dataclass(frozen=True)
class AuditResult:
    """The result of one scan.

    Attributes:
        name: Name of the scan, for example ``pip-audit (requirements.lock)``.
        judged: Whether the scan could run: its program and its database were available.
        clean: Whether the scan ran and found nothing.
        text: The findings, or the reason why the scan could not run.
    """

    name: str
    judged: bool
    clean: bool
    text: str = ""

    def __str__(self) -> str:
        """Return the result as a line, followed by the findings if there are any."""
        state = "not judged" if not self.judged else "nothing found" if self.clean else "found"
        return f"{self.name}: {state}" + (f"\n{self.text}" if self.text else "")


def _run_scanner(name: str, command: list[str], folder: Path = ROOT) -> AuditResult:
    """Run a scanner; report an unreachable vulnerability database as "not judged"."""
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
        return AuditResult(name, judged=False, clean=False, text=f"no response in {LIMIT} s")
    text = printable_lines((done.stdout + done.stderr).strip())
    if done.returncode == 0:
        return AuditResult(name, judged=True, clean=True)
    lowered = done.stderr.lower()
    reached = not any(word in lowered for word in _UNREACHED)
    # `go run` itself exits with 1 and prints the exit code of the program that it ran as "exit
    # status N".
    finding_status = FOUND.get(command[0])
    failed = finding_status is not None and f"exit status {finding_status}" not in lowered
    return AuditResult(name, judged=reached and not failed, clean=False, text=text[-4000:])


def _scan_secrets() -> AuditResult:
    lines = secret_scan.scan()
    return AuditResult("secret scan", judged=True, clean=not lines, text="\n".join(lines))


def _scan_workflows() -> AuditResult:
    command = ["zizmor", "--offline", "--no-progress", "--min-severity", "medium", ".github"]
    return _run_scanner("zizmor (workflows)", command)


def _scan_python(lock: str) -> AuditResult:
    command = ["pip-audit", "--require-hashes", "--disable-pip", "--progress-spinner", "off"]
    return _run_scanner(f"pip-audit ({lock})", [*command, "-r", lock])


def programs(module: Path) -> list[str]:
    """Return the Go packages of a module that govulncheck scans.

    These are the programs that the module's ``tools.go`` imports; in a module without that file,
    all packages.
    """
    tools = module / "tools.go"
    return _IMPORTED.findall(tools.read_text()) if tools.exists() else ["./..."]


def _scan_go(module: Path) -> AuditResult:
    command = ["go", "run", GOVULNCHECK, "-scan", "package", *programs(module)]
    return _run_scanner(f"govulncheck ({module.name})", command, module)


def parts() -> list[Callable[[], AuditResult]]:
    """Return all scans in the order in which they are shown, one for each Go module at the end."""
    modules = sorted(
        file.parent
        for file in (ROOT / "embedded" / "gpu_cluster_lab" / "toolchain" / "go").glob("*/go.mod")
    )
    in_go = [partial(_scan_go, module) for module in modules]
    in_python = [
        partial(_scan_python, path.name) for path in sorted(ROOT.glob("requirements*.lock"))
    ]
    return [_scan_secrets, _scan_workflows, *in_python, *in_go]


def main() -> None:
    """Print the result of each scan; exit with 1 if a scan found something.

    With ``AUDIT=strict``, exit with 1 also if a scan could not run.
    """
    results = []
    for scan in parts():
        results.append(scan())
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
