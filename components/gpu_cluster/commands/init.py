"""Run `gpu-cluster init`: write the repository of a site into the current folder.

The files are templates in `site_files`. No existing file is changed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpu_cluster.base.nearness import nearest
from gpu_cluster.commands.begun_file import begun_text
from gpu_cluster.commands.contexts import asks
from gpu_cluster.commands.output import refusals
from gpu_cluster.commands.project import NAME
from gpu_cluster.commands.tools import has_lab
from gpu_rules.faults import Fault, FaultError, show
from gpu_rules.printable import printable_lines
from gpu_rules.version import VERSION

_TEMPLATES = Path(__file__).with_name("site_files")
REQUIREMENTS = "requirements.txt"
PROJECT_FILE = "Pulumi.yaml"
TEMPLATE = """\
template:
  description: A site of gpu-cluster, from bare hosts to GPUs that each ran a kernel
  important: true
"""
"""What makes a project a template; `pulumi new` removes it, and keeps the project's name.

Source: pulumi v3.274.1, pkg/cmd/pulumi/project/newcmd/new.go; sdk/go/common/workspace/project.go.
"""
FORGES = ("github", "gitlab")
_OWNERS = re.compile(r"@[\w.-]+(/[\w.-]+)*( @[\w.-]+(/[\w.-]+)*)*")
_TRIAL = "dev"
"""Stack on an embedded cluster, which each site gets."""


def main(
    *,
    forge: str = "",
    stacks: str = "",
    owners: str = "",
    constraints: str = "",
    template: bool = False,
) -> None:
    """Write the files of a site; exit with 1 if one of them exists.

    Args:
        forge: Where the repository is hosted.
        stacks: Names of the stacks of real clusters, separated by commas.
        owners: Who must review changes.
        constraints: The constraints file of the release; empty: ask pip's index.
        template: Whether the folder is to be a template for `pulumi new`.
    """
    if asks():
        forge = forge or input("github or gitlab (github): ").strip()
        stacks = stacks or input("names of the stacks of real clusters, with commas: ").strip()
        owners = owners or input("who must review changes, such as @org/gpu: ").strip()
    names = tuple(filter(None, (name.strip() for name in stacks.split(","))))
    values = values_of(names, owners)
    files = site_files(forge or FORGES[0], values)
    files |= {f"Pulumi.{name}.yaml": begun_text(name) for name in names if name != _TRIAL}
    require_absent(Path.cwd(), [*files, REQUIREMENTS])
    with refusals():
        if template:
            files[PROJECT_FILE] += TEMPLATE
        files[REQUIREMENTS] = requirements(Path(constraints) if constraints else None)
        write_files(Path.cwd(), files)
    if template:
        print(f"init: {len(files)} files. A site is made of them by: pulumi new {Path.cwd()}")
        return
    print(f"init: {len(files)} files. Read README.md; next: gpu-cluster up --stack {_TRIAL}")


_STACKS = "write names of letters, digits, '-', '_' and '.', such as --stacks staging,prod"
_OWNER = "write --owners @org/gpu, for example"


def values_of(stacks: Sequence[str], owners: str) -> dict[str, str]:
    """Return the values of the templates' placeholders.

    Raises:
        FaultError: A name of a stack or of an owner is not valid.
    """
    for name in stacks:
        if not NAME.fullmatch(name):
            raise FaultError(Fault("--stacks", show(name), "names of stacks", _STACKS))
    if owners and not _OWNERS.fullmatch(owners):
        raise FaultError(Fault("--owners", show(owners), "names such as @org/gpu", _OWNER))
    every = (_TRIAL, *(name for name in stacks if name != _TRIAL))
    real = every[1:] or ("prod",)
    return {
        "STACKS": ", ".join(every),
        "FIRST": every[0],
        "TRIAL": _TRIAL,
        "STACK_LIST": ", ".join(every),
        "REAL_LIST": ", ".join(real),
        "REAL_STACKS": json.dumps(real),
        "OWNERS": owners or "@OWNER/REPLACE-ME",
    }


def site_files(forge: str, values: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of a site's files by their paths, without the requirements.

    Raises:
        FaultError: The forge is not known.
    """
    if forge not in FORGES:
        cure = f"write --forge {nearest(forge, FORGES)}"
        raise FaultError(Fault("--forge", show(forge), f"one of {', '.join(FORGES)}", cure))
    files = {}
    for folder in (_TEMPLATES / "all", _TEMPLATES / forge):
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            if path.suffix != ".pyc":
                text = path.read_text(encoding="utf-8")
                files[str(path.relative_to(folder))] = filled(text, values)
    return files


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a template with its placeholders, such as `@OWNERS@`, replaced."""
    return re.sub(r"@([A-Z_]+)@", lambda match: values.get(match[1], match[0]), text)


def require_absent(folder: Path, names: Sequence[str]) -> None:
    """Check that none of the files exists.

    Raises:
        FaultError: A file exists; nothing was written.
    """
    if there := [name for name in names if (folder / name).exists()]:
        raise FaultError(
            Fault(
                "folder", ", ".join(there[:5]), "a folder without these files", "use a new folder"
            )
        )


def requirements(constraints: Path | None) -> str:
    """Return the pinned requirements of a site, with hashes.

    Args:
        constraints: The constraints file of the release. None: the packages that pip would install
            from its index, with the hashes of the files for this platform.

    Raises:
        FaultError: The file is not that of this release, or pip finds no packages.
    """
    if constraints is None:
        return "".join(_resolved())
    text = constraints.read_text(encoding="utf-8")
    if f"gpu-cluster=={VERSION} " not in text:
        found, wanted = "another file", f"the constraints file of release {VERSION}"
        raise FaultError(Fault(str(constraints), found, wanted, "download it with the release"))
    return text


def _resolved() -> Iterator[str]:
    """Yield the lines of the requirements as pip's index resolves them."""
    own = [f"gpu-cluster=={VERSION}", *([f"gpu-cluster-lab=={VERSION}"] if has_lab() else [])]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    dry = ["--dry-run", "--ignore-installed", "--report", "-"]
    done = subprocess.run([*pip, *dry, *own], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = printable_lines(done.stderr.strip()).splitlines() or ["no reason"]
        cure = "name the release's constraints file with --constraints, or set pip's index"
        raise FaultError(Fault("pip", lines[-1], f"{' and '.join(own)} in its index", cure))
    yield f"# Packages of gpu-cluster {VERSION}, with the hashes of the files for this platform.\n"
    packages = json.loads(done.stdout)["install"]
    for package in sorted(packages, key=lambda each: str(each["metadata"]["name"]).lower()):
        metadata, hashes = package["metadata"], package["download_info"]["archive_info"]["hashes"]
        yield f"{metadata['name']}=={metadata['version']} \\\n"
        yield f"    --hash=sha256:{hashes['sha256']}\n"


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files below a folder, whose missing folders are made.

    Raises:
        OSError: A file exists, or can't be written.
    """
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
