"""Make missing tools: official release, otherwise Go module, otherwise the project's own plugin."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from gpu_cluster.machine.tool import GO_MODULE, OWN, RELEASE, Tool, ToolchainError

from . import launcher
from .archive import extract
from .cache import Store
from .gobuild import Builder
from .golang import find_go
from .machine import Platform
from .modules import MODULES
from .pins import BASES, Pin
from .progress import Steps
from .releases import Asset, Downloads, ReleaseError, asset
from .search import ask


@dataclass
class Maker:
    """Makes missing tools and adds them to a cache.

    The caller must hold the cache's lock.

    Attributes:
        store: The cache.
        entry: Function that returns the path of a tool's cache entry.
        platform: The platform of this machine.
        steps: Shows the progress.
        bases: Base URLs of the releases.
        downloads: Downloads the releases.
        asker: Function that runs a new executable and returns its version, which must be the pinned
            version.
        go: Function that returns the Go command.
        tried: Reasons why each way to get a tool failed, by tool name.
    """

    store: Store
    entry: Callable[[Pin], Path]
    platform: Platform
    steps: Steps = field(default_factory=Steps)
    bases: Mapping[str, str] = field(default_factory=lambda: BASES)
    downloads: Downloads = field(default_factory=Downloads)
    asker: Callable[[Pin, Path], str | None] = ask
    go: Callable[[Callable[[str], None]], Path] = find_go
    tried: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def make(self, pins: Sequence[Pin]) -> dict[str, Tool]:
        """Make all of the wanted tools; return them by name.

        Raises:
            ToolchainError: A tool could not be made; the message says why each way failed: release,
                Go module and own plugin.
        """
        tools: dict[str, Tool] = {}
        for way in (self._release, self._build, self._own):
            missing = [pin for pin in pins if pin.name not in tools]
            if missing:
                tools |= way(missing)
        lost = [pin for pin in pins if pin.name not in tools]
        if lost:
            reasons = " / ".join(
                f"{pin.name} {pin.version}: {'; '.join(self.tried[pin.name])}" for pin in lost
            )
            raise ToolchainError(
                f"tools that cannot be had on {self.platform}: {reasons}; "
                "cure: put them on PATH in the versions wanted, or give access to a Go module "
                "proxy (GOPROXY) and 10 GB of free disk, and run again: what is compiled stays "
                "compiled"
            )
        return tools

    def _release(self, pins: Sequence[Pin]) -> dict[str, Tool]:
        by_url: dict[str, list[Asset]] = defaultdict(list)
        for pin in pins:
            item = asset(pin, self.platform, self.bases)
            if item is None:
                self.tried[pin.name].append("no release with a checksum for this platform")
            else:
                by_url[item.url].append(item)
        if not by_url:
            return {}
        firsts = [items[0] for items in by_url.values()]
        sums = self.downloads.checksums(firsts)
        failures = sorted({str(text) for text in sums.values() if isinstance(text, ReleaseError)})
        if failures:
            names = ", ".join(
                item.pin.name
                for items in by_url.values()
                for item in items
                if isinstance(sums[items[0].checksums], ReleaseError)
            )
            self.steps.say(f"no release download for {names}: {'; '.join(failures)}")
        tools: dict[str, Tool] = {}
        # Download one release after the other, so that a host that does not answer delays only one
        # download.
        for items in by_url.values():
            tools |= self._fetch(items, sums)
        return tools

    def _fetch(self, items: list[Asset], sums: Mapping[str, str | ReleaseError]) -> dict[str, Tool]:
        text = sums[items[0].checksums]
        try:
            if isinstance(text, ReleaseError):
                raise text
            return self._unpack(items, text)
        except ReleaseError as error:
            for item in items:
                self.tried[item.pin.name].append(f"release: {error}")
            if not isinstance(text, ReleaseError):
                self.steps.say(f"release not used: {error}")
            return {}

    def _unpack(self, items: list[Asset], sums: str) -> dict[str, Tool]:
        folder = self.store.stage()
        archive = folder / items[0].file_name
        names = ", ".join(item.pin.name for item in items)
        with self.steps.step(f"downloading {names}", 0.0, 100, "%") as advance:
            self.downloads.fetch(
                items[0],
                sums,
                archive,
                lambda done, total: advance(done * 100 // total if total else 0),
            )
        if archive.name not in self.downloads.pinned:
            self.steps.say(f"{archive.name}: its SHA-256 is the publisher's own, not pinned here")
        tools = {}
        for item in items:
            staged = self.store.stage()
            extract(archive, item, staged)
            tools[item.pin.name] = self._publish(item.pin, staged, RELEASE)
        archive.unlink(missing_ok=True)
        return tools

    def _build(self, wanted: Sequence[Pin]) -> dict[str, Tool]:
        groups: dict[str, list[Pin]] = defaultdict(list)
        for pin in wanted:
            if pin.go is not None:
                groups[pin.go.module].append(pin)
        if not groups:
            return {}
        try:
            builder = Builder(self.go(self.steps.say), self.store.stage())
        except ToolchainError as error:
            self._fail([pin for pins in groups.values() for pin in pins], error)
            return {}
        tools: dict[str, Tool] = {}
        with ThreadPoolExecutor(len(groups)) as pool:
            # While the first Go module is compiled, the other modules are downloaded in parallel.
            loads = {
                name: pool.submit(builder.load, MODULES[name], pins)
                for name, pins in groups.items()
            }
            for name, pins in groups.items():
                try:
                    built = builder.build(MODULES[name], pins, loads[name].result(), self.steps)
                    for pin in pins:
                        staged = self.store.stage()
                        built[pin.name].rename(staged / pin.name)
                        tools[pin.name] = self._publish(pin, staged, GO_MODULE)
                # If one Go module can't be built, the tools of the other modules are still made.
                except ToolchainError as error:
                    self._fail(pins, error)
        return tools

    def _fail(self, pins: Sequence[Pin], error: ToolchainError) -> None:
        for pin in pins:
            self.tried[pin.name].append(f"Go module: {error}")

    def _own(self, pins: Sequence[Pin]) -> dict[str, Tool]:
        tools = {}
        for pin in pins:
            if not pin.own:
                self.tried[pin.name].append("no substitute of the project's own")
                continue
            staged = self.store.stage()
            (staged / pin.name).write_text(launcher.script(pin.name), encoding="utf-8")
            tool = Tool(pin.name, pin.version, OWN, staged / pin.name)
            tools[pin.name] = self.store.publish(staged, tool, self.entry(pin))
            self.steps.say(f"{pin.name}: the project's own is in use")
        return tools

    def _publish(self, pin: Pin, staged: Path, origin: str) -> Tool:
        executable = staged / pin.name
        executable.chmod(0o755)
        version = self.asker(pin, executable)
        if version != pin.version:
            raise ReleaseError(
                f"{pin.name} from its {origin} says version {version}, wanted {pin.version}"
            )
        tool = Tool(pin.name, version, origin, executable)
        return self.store.publish(staged, tool, self.entry(pin))
