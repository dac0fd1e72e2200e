"""The programs that commands run: those of the toolchain if it is installed, else those on PATH.

The toolchain is in the package `gpu-cluster-lab`. Without it a site has its own Pulumi, which
installs the plugins of the program itself.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Sequence
from pathlib import Path

from gpu_cluster.commands.output import answering
from gpu_cluster.machine.tool import ON_PATH, Tool, ToolchainError, table

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


def ensure(*names: str, refresh: bool = False) -> dict[str, Tool]:
    """Return the tools by name; the toolchain downloads or builds missing tools.

    Without the toolchain, return only the engine: it finds its plugins itself.

    Args:
        names: Names of tools of the toolchain.
        refresh: Whether the toolchain looks again for official tools.

    Raises:
        ToolchainError: A tool could not be found, downloaded or built.
    """
    if has_lab():
        from gpu_cluster_lab import toolchain

        return toolchain.ensure(*names, refresh=refresh)
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


def _require_toolchain(names: Sequence[str]) -> None:
    """Check that the site has the toolchain if other tools than the engine are wanted.

    Raises:
        ToolchainError: The toolchain is not installed.
    """
    others = [name for name in names if name != ENGINE]
    if others and not has_lab():
        raise ToolchainError(
            f"tool: found {others[0]!r}; wanted: {ENGINE}; cure: install the wheel "
            "gpu-cluster-lab, which has the other tools"
        )


def main(
    *, names: Sequence[str] = (), path: str = "", bin: bool = False, refresh: bool = False
) -> None:
    """Show the tools, and build the missing tools; exit with 1 if a tool is not available.

    Args:
        names: Names of tools; empty: all.
        path: A tool whose path alone is printed.
        bin: Whether the folder of the tools alone is printed.
        refresh: Whether the toolchain looks again for official tools.
    """
    wanted = (path,) if path else tuple(names)
    with answering("tools") as json_output:
        _require_toolchain(wanted)
        tools = [*ensure(*wanted, refresh=refresh).values()]
        json_output["tools"] = [
            {"name": tool.name, "version": tool.version, "origin": tool.origin,
             "path": str(tool.path)}
            for tool in tools
        ]  # fmt: skip
        if path:
            print(tools[0].path)
        elif bin:
            print(_folder(tools))
        else:
            print(*table(tools), sep="\n")


def _folder(tools: Sequence[Tool]) -> Path:
    """Return the folder for PATH: that of the toolchain, or that of the engine."""
    if not has_lab():
        return tools[0].path.parent
    from gpu_cluster_lab import toolchain

    return toolchain.bin_dir()
