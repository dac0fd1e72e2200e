"""Finds every tool that is asked for, and makes what is missing."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from . import launcher, trust
from .cache import Store, cache_dir, digest, link, point
from .machine import Platform, here
from .maker import Maker
from .modules import MODULES
from .pins import PINS, Pin
from .progress import Steps
from .search import PathSearch
from .tool import ON_PATH, OWN, Tool, ToolchainError

#: The clone that this file belongs to.
HOME = Path(__file__).resolve().parent.parent
#: Part of every key: change it with the layout of an entry.
_LAYOUT = "1"


@dataclass
class Toolchain:
    """The tools of one set of pins in one cache.

    ``search_path``: as in ``$PATH``. ``maker``: makes a :class:`Maker` for a store whose lock is
    held; tests put their own servers and compilers there.
    """

    cache: Path = field(default_factory=cache_dir)
    search_path: str = field(default_factory=lambda: os.environ.get("PATH", os.defpath))
    pins: Mapping[str, Pin] = field(default_factory=lambda: PINS)
    platform: Platform = field(default_factory=here)
    home: Path = HOME
    steps: Steps = field(default_factory=Steps)
    maker: Callable[[Toolchain], Maker] = field(default=lambda toolchain: toolchain.default_maker())

    @property
    def store(self) -> Store:
        """Where entries lie."""
        return Store(self.cache / "tools")

    @cached_property
    def search(self) -> PathSearch:
        """The search along PATH."""
        root = self.cache / "tools"
        return PathSearch(self.search_path, excluded=root, memory=root / "path.json")

    @cached_property
    def keys(self) -> dict[str, str]:
        """The key of each tool: everything that decides what its executable is."""
        return {name: self._key(pin) for name, pin in self.pins.items()}

    @property
    def bin(self) -> Path:
        """One folder with all tools that :meth:`ensure` was asked for: an entry for PATH."""
        return self.cache / "tools" / digest(self.keys) / "bin"

    def names(self) -> list[str]:
        """The product's tools for this machine: all but those on demand."""
        return [
            pin.name
            for pin in self.pins.values()
            if self.platform.system in pin.systems and not pin.on_demand
        ]

    def entry(self, pin: Pin) -> Path:
        """Where a tool's entry lies or would lie."""
        return self.store.entry(pin.name, pin.version, self.keys[pin.name])

    def ensure(self, *names: str, refresh: bool = False) -> dict[str, Tool]:
        """The tools by name, the product's where no name is given; makes what is missing.

        ``refresh``: substitutes of the project's own are looked for again as official ones.
        Raises :class:`ToolchainError`.
        """
        wanted = [self._pin(name) for name in (names or self.names())]
        tools = {pin.name: self._find(pin, refresh) for pin in wanted}
        if not all(tools.values()):
            with self.store.lock(self.steps.say):
                tools = {pin.name: self._find(pin, refresh) for pin in wanted}
                missing = [pin for pin in wanted if tools[pin.name] is None]
                if missing:
                    tools |= self.maker(self).make(missing)
        return {name: self._place(tool) for name, tool in tools.items() if tool is not None}

    def environment(self) -> dict[str, str]:
        """What a process needs to run the tools: ``PATH`` and, for launchers, the clone."""
        path = os.pathsep.join((str(self.bin), self.search_path))
        return {"PATH": path, "GPU_CLUSTER_HOME": str(self.home)}

    def default_maker(self) -> Maker:
        """Makes tools from the real releases and Go modules."""
        return Maker(self.store, self.entry, self.platform, self.home, self.steps)

    def _pin(self, name: str) -> Pin:
        pin = self.pins.get(name)
        if pin is None:
            near = difflib.get_close_matches(name, self.pins, n=1) or list(self.pins)
            raise ToolchainError(
                f"tool: found {name!r}, wanted one of {', '.join(self.pins)}; cure: {near[0]!r}?"
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
        parts: dict[str, str | bytes] = {
            "layout": _LAYOUT,
            "name": pin.name,
            "version": pin.version,
            "platform": str(self.platform),
            "release": pin.release.url if pin.release else "",
            "launcher": launcher.script(pin.name) if pin.own else "",
        }
        if pin.go is not None:
            module = MODULES[pin.go.module]
            parts["package"] = pin.go.package
            parts["flags"] = " ".join((*module.flags, module.link_flags))
            for file in sorted(module.folder.rglob("*")):
                if file.is_file():
                    parts[f"file {file.relative_to(module.folder)}"] = file.read_bytes()
        return digest(parts)
