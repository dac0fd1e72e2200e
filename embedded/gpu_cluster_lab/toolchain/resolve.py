"""Find tools on PATH and in the cache, and make missing tools."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gpu_cluster.machine.folders import cache_dir
from gpu_cluster.machine.tool import ON_PATH, OWN, Tool, ToolchainError

from . import launcher, trust
from .cache import Store, digest, link, point
from .machine import Platform, here
from .maker import Maker
from .modules import MODULES
from .pins import PINS, Pin
from .progress import Steps
from .search import PathSearch

# Version of the layout of cache entries, part of every cache key. Change it when the layout
# changes.
_LAYOUT = "1"


@dataclass
class Toolchain:
    """Pinned tools on this machine, with the cache that contains them.

    Attributes:
        cache: The cache folder.
        search_path: Folders to search, in the format of ``$PATH``.
        pins: The pinned tools by name.
        platform: The platform of this machine.
        steps: Shows the progress.
        maker: Function that returns the `Maker` of missing tools, called while the lock is held.
            Tests replace it to use their own servers and compilers.
    """

    cache: Path = field(default_factory=cache_dir)
    search_path: str = field(default_factory=lambda: os.environ.get("PATH", os.defpath))
    pins: Mapping[str, Pin] = field(default_factory=lambda: PINS)
    platform: Platform = field(default_factory=here)
    steps: Steps = field(default_factory=Steps)
    maker: Callable[[Toolchain], Maker] = field(default=lambda toolchain: toolchain.default_maker())

    @property
    def store(self) -> Store:
        """Return the store of cached tools in the cache folder."""
        return Store(self.cache / "tools")

    @cached_property
    def search(self) -> PathSearch:
        """Return an object that searches PATH for tools."""
        root = self.cache / "tools"
        return PathSearch(self.search_path, excluded=root, memory=root / "path.json")

    @cached_property
    def keys(self) -> dict[str, str]:
        """Return each tool's cache key: a hash of everything that determines its executable."""
        return {name: self._key(pin) for name, pin in self.pins.items()}

    @property
    def bin(self) -> Path:
        """Return the cache folder with all tools that `ensure` returned, to be put on PATH."""
        return self.cache / "tools" / digest(self.keys) / "bin"

    def names(self) -> list[str]:
        """Return the names of this machine's tools, without tools that are only made on demand."""
        return [
            pin.name
            for pin in self.pins.values()
            if self.platform.system in pin.systems and not pin.on_demand
        ]

    def entry(self, pin: Pin) -> Path:
        """Return the path of a tool's cache entry, even if the entry doesn't exist."""
        return self.store.entry(pin.name, pin.version, self.keys[pin.name])

    def ensure(self, *names: str, refresh: bool = False) -> dict[str, Tool]:
        """Return the tools by name; download or build missing tools.

        Without names, return all tools except those that are only made on demand.

        Args:
            names: Names of tools.
            refresh: Whether to search again for official tools that could replace the project's
                own.

        Raises:
            ToolchainError: A tool could not be found or made.
        """
        pins = [self._pin(name) for name in (names or self.names())]
        tools = {pin.name: self._find(pin, refresh) for pin in pins}
        if not all(tools.values()):
            with self.store.lock(self.steps.say):
                tools = {pin.name: self._find(pin, refresh) for pin in pins}
                missing = [pin for pin in pins if tools[pin.name] is None]
                if missing:
                    tools |= self.maker(self).make(missing)
        return {name: self._place(tool) for name, tool in tools.items() if tool is not None}

    def environment(self) -> dict[str, str]:
        """Return environment variables for running the tools: ``PATH``, ``GPU_CLUSTER_PYTHON``."""
        path = os.pathsep.join((str(self.bin), self.search_path))
        return {"PATH": path, "GPU_CLUSTER_PYTHON": sys.executable}

    def default_maker(self) -> Maker:
        """Return a maker that uses the official releases and the pinned Go modules."""
        return Maker(self.store, self.entry, self.platform, self.steps)

    def _pin(self, name: str) -> Pin:
        pin = self.pins.get(name)
        if pin is None:
            near = difflib.get_close_matches(name, self.pins, n=1)
            cure = f"write {near[0]!r}" if near else "write one of these names"
            raise ToolchainError(
                f"tool: found {name!r}, wanted one of {', '.join(self.pins)}; cure: {cure}"
            )
        if self.platform.system not in pin.systems:
            raise ToolchainError(
                f"{name} runs on {', '.join(pin.systems)}, this is {self.platform}; "
                "cure: ask for it on one of these"
            )
        return pin

    def _find(self, pin: Pin, refresh: bool) -> Tool | None:
        tool = self.search.find(pin) or self.store.read(self.entry(pin))
        return None if refresh and tool is not None and tool.origin == OWN else tool

    def _place(self, tool: Tool) -> Tool:
        target = self.bin / tool.name
        trust.make_folder(self.bin)
        trust.check_owner(self.bin)
        if tool.origin == ON_PATH:
            point(target, tool.path)
            return tool
        for file in tool.path.parent.iterdir():
            if file.suffix != ".json":
                link(file, self.bin / file.name)
        return Tool(tool.name, tool.version, tool.origin, target)

    def _key(self, pin: Pin) -> str:
        contents: dict[str, str | bytes] = {
            "layout": _LAYOUT,
            "name": pin.name,
            "version": pin.version,
            "platform": str(self.platform),
            "release": pin.release.url if pin.release else "",
            "launcher": launcher.script(pin.name) if pin.own else "",
        }
        if pin.go is not None:
            module = MODULES[pin.go.module]
            contents["package"] = pin.go.package
            contents["flags"] = " ".join((*module.flags, module.link_flags))
            for file in sorted(module.folder.rglob("*")):
                if file.is_file():
                    contents[f"file {file.relative_to(module.folder)}"] = file.read_bytes()
        return digest(contents)
