"""Part of `make check`: run shellcheck on every shell script, and actionlint on every workflow."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from gpu_cluster.base import yaml_file
from gpu_cluster.commands import init
from gpu_cluster.commands.files import ROOT, project_files
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.hosts.kubeadm.scripts import (
    access_script,
    init_script,
    lend_script,
    member_script,
)
from gpu_cluster.hosts.observed.probe import probe
from gpu_cluster.hosts.phases import prepare_script, runtime_script
from gpu_cluster.loading.stack_file import load_stack_file
from gpu_cluster.settings.hosts.kubeadm_init import Init, Network
from gpu_cluster.settings.hosts.kubernetes_packages import KubernetesPackagesSettings
from gpu_cluster.settings.hosts.runtime import Engine, RuntimeSettings
from gpu_cluster_lab import toolchain

# Files that are not checked one by one. Parts of host scripts are checked in the assembled scripts
# (see `host_scripts`). The two plugin launchers are valid both as sh and as Python, which
# shellcheck can't parse.
ELSEWHERE = (
    "components/gpu_cluster/hosts/steps/",
    "components/gpu_cluster/hosts/observed/probe.sh",
    "embedded/gpu_cluster_lab/toolchain/plugins/pulumi-",
)

# In the scripts for hosts, ``a && b || fail`` is intended: `fail` runs if either command fails, and
# ends the script. SC2015 warns about that form.
MEANT = "--exclude=SC2015"

# With this option apt-get waits for another running installation instead of failing.
APT = ("apt-get", "-o", "DPkg::Lock::Timeout=300")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def shell_scripts() -> list[str]:
    """Return the project's shell files: named `*.sh`, or with a shebang of sh or bash."""
    return [name for name in project_files() if not name.startswith(ELSEWHERE) and _is_shell(name)]


def _is_shell(name: str) -> bool:
    path = ROOT / name
    if path.suffix not in ("", ".sh"):
        return False
    with path.open("rb") as file:
        first = file.readline().strip()
    return path.suffix == ".sh" or (first.startswith(b"#!") and first.endswith((b"sh", b"bash")))


def _find_shellcheck() -> str:
    program = shutil.which("shellcheck")
    if program is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run([*APT, "update", "-qq"], check=True, timeout=300)
        subprocess.run([*APT, "install", "-y", "-qq", "shellcheck"], check=True, timeout=600)
        program = shutil.which("shellcheck")
    if program is None:
        sys.exit("shellcheck: not found on PATH; wanted: any version; cure: install the package")
    return program


def host_scripts() -> dict[str, str]:
    """Return the scripts that run on hosts, fully assembled, by a name for the report."""
    hosts = resolve(load_stack_file(ROOT / "Pulumi.prod.yaml"), "prod").hosts
    host = next(candidate for candidate in hosts if candidate.role.has_gpus)
    scripts = {
        "prepare": prepare_script(host, inline=True),
        # The script in its declared form sources library files that shellcheck can't see here. So
        # warnings about unused variables (SC2034) and unknown sources (SC1090) are disabled.
        "prepare, as declared": f"# shellcheck disable=SC2034,SC1090\n{prepare_script(host)}",
        "probe": probe(),
    }
    scripts |= _new_cluster()
    for engine in Engine:
        sections = host.sections.model_copy(update={"runtime": RuntimeSettings(engine=engine)})
        with_engine = replace(host, sections=sections)
        scripts[f"runtime, {engine.value}"] = runtime_script(with_engine, inline=True)
    return scripts


def _new_cluster() -> dict[str, str]:
    """Return the scripts for the control-plane hosts of a cluster that the stack creates."""
    init = Init(endpoint="192.0.2.1:6443", network=Network(manifest="network/cni.yaml"))
    packages = KubernetesPackagesSettings(version="1.34.4", init=init)
    declared = load_stack_file(ROOT / "Pulumi.prod.yaml")
    cluster = declared.model_copy(update={"kubernetes_packages": packages})
    first = resolve(cluster, "prod").hosts[0]
    return {
        "cluster": init_script(first, inline=True),
        "member": member_script(first, inline=True),
        "lend": f"# shellcheck disable=SC2317\n{lend_script(first, first.node, [first.node])}",
        # The script defines `main` again, so the library's `main` is unreachable (SC2317).
        "access": f"# shellcheck disable=SC2317\n{access_script(first, (), inline=True)}",
    }


def workflow_scripts() -> dict[str, str]:
    """Return the shell steps of the workflows, as GitHub's runner starts them, by job and step."""
    scripts = {}
    for path in WORKFLOWS:
        for job, content in dict(yaml_file.read(path).value)["jobs"].items():
            for number, step in enumerate(content.get("steps", ()), start=1):
                if "run" in step:
                    text = f"#!/usr/bin/env bash\nset -eo pipefail\n{step['run']}\n"
                    scripts[f"{path.stem}.{job}.{number}"] = text
    return scripts


def _check_scripts(shellcheck: list[str], shell: str, scripts: dict[str, str]) -> list[str]:
    """Return the names of the scripts that shellcheck complains about; it prints the details."""
    faulty = []
    for name, text in scripts.items():
        done = subprocess.run([*shellcheck, f"--shell={shell}", "-"], input=text, text=True)
        if done.returncode:
            faulty.append(name)
    return faulty


def main() -> None:
    """Check all scripts and workflows; exit with 1 if shellcheck or actionlint complains."""
    shellcheck = _find_shellcheck()
    files = subprocess.run([shellcheck, *shell_scripts()], cwd=ROOT).returncode
    faulty = _check_scripts([shellcheck, MEANT], "sh", host_scripts())
    faulty += _check_scripts([shellcheck], "bash", workflow_scripts())
    for name in faulty:
        print(f"shellcheck: faults above in: {name}", file=sys.stderr)
    actionlint = str(toolchain.ensure("actionlint")["actionlint"].path)
    checked = subprocess.run([actionlint, *map(str, WORKFLOWS)], cwd=ROOT).returncode
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        init.write_files(site, init.site_files("github", init.values_of(("prod",), "")))
        # actionlint finds the workflows of a repository by its folder `.git`.
        (site / ".git").mkdir()
        of_site = subprocess.run([actionlint], cwd=site).returncode
    sys.exit(1 if files or faulty or checked or of_site else 0)


if __name__ == "__main__":
    main()
