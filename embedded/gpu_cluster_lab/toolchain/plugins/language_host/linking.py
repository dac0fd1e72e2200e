"""Add generated SDKs to the requirements of a Python program (`pulumi package add`).

Source: pulumi/pulumi at v3.260.0, `Link` in sdk/python/cmd/pulumi-language-python/main.go and
`LinkPackages` in sdk/python/toolchain/pip.go. The toolchains poetry and uv are not supported.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpu_rules.faults import Fault, FaultError, show

from . import interpreter

MANIFEST = "pulumi-plugin.json"
"""File in the import package of each generated SDK, which names the provider's plugin."""


def link(info: Any, paths: Iterable[str]) -> str:
    """Add SDKs to a program's requirements.txt; return the lines that import the SDKs.

    Args:
        info: The program, as the engine describes it (`ProgramInfo`).
        paths: Folders of the SDKs, relative to the project's folder.

    Raises:
        FaultError: The program uses another toolchain than pip, or has no requirements.txt.
    """
    used = interpreter.options(info).get("toolchain", "pip")
    if used != "pip":
        cure = "write `toolchain: pip` in Pulumi.yaml, or use Pulumi's own language host"
        wanted = "pip, as this language host knows it"
        raise FaultError(Fault("runtime.options.toolchain", show(used), wanted, cure))
    root = Path(info.root_directory)
    file = root / "requirements.txt"
    if not file.exists():
        add = "create the file, and add the package again"
        raise FaultError(Fault(str(file), "no such file", "the program's requirements", add))
    paths = sorted(paths)
    lines = file.read_text(encoding="utf-8").splitlines()
    lines = [*(line for line in lines if line.strip() not in paths), *paths]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    imports = "".join(f"  import {_import_name(root / path)}\n" for path in paths)
    return f"You can import the SDK in your Python code with:\n\n{imports}"


def _import_name(folder: Path) -> str:
    """Return the name by which programs import an SDK."""
    (manifest,) = folder.glob(f"*/{MANIFEST}")
    return manifest.parent.name
