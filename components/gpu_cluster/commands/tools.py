"""The programs that commands run: those of the toolchain if it is installed, else those on PATH.

The toolchain is in the package `gpu-cluster-lab`. Without it a site has its own Pulumi, which
installs the plugins of the program itself.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from gpu_cluster.machine.tool import ON_PATH, Tool, ToolchainError

ENGINE = "pulumi"
PLUGINS = ("pulumi-resource-kubernetes", "pulumi-resource-command")
TOOLS = (ENGINE, "pulumi-language-python", *PLUGINS)
"""Programs of each run of the engine."""
INSTALL = (
    "install Pulumi (https://www.pulumi.com/docs/install/), or the wheel gpu-cluster-lab of the "
    "same release"
)


def has_lab() -> bool:
    """Return whether the package with the embedded cluster and its toolchain is installed."""
    return importlib.util.find_spec("gpu_cluster_lab") is not None


def ensure(*names: str) -> dict[str, Tool]:
    """Return the tools by name; the toolchain downloads or builds missing tools.

    Without the toolchain, return only the engine: it finds its plugins itself.

    Args:
        names: Names of tools of the toolchain.

    Raises:
        ToolchainError: A tool could not be found, downloaded or built.
    """
    if has_lab():
        from gpu_cluster_lab import toolchain

        return toolchain.ensure(*names)
    path = shutil.which(ENGINE)
    if path is None:
        raise ToolchainError(
            f"{ENGINE}: not found on PATH; wanted: version 3.272 or newer; cure: {INSTALL}"
        )
    return {ENGINE: Tool(ENGINE, "", ON_PATH, Path(path))}


def plugin_files(home: Path) -> set[Path]:
    """Return the executables of the engine's plugins that this project's runs start.

    Args:
        home: The engine's folder, ``PULUMI_HOME``.
    """
    files = {path for name in PLUGINS for path in home.glob(f"plugins/*/{name}")}
    if has_lab():
        files |= {tool.path for tool in ensure(*PLUGINS).values()}
    return {path.resolve() for path in files}


def main(words: Sequence[str]) -> int:
    """Show the tools, and build the missing tools; return the exit code.

    Args:
        words: The arguments, for the toolchain.
    """
    if has_lab():
        from gpu_cluster_lab.toolchain.__main__ import main as show

        return show(list(words))
    try:
        print(ensure()[ENGINE].path)
    except ToolchainError as error:
        print(f"tools: {error}", file=sys.stderr)
        return 1
    return 0
