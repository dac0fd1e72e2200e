"""Read the situations of hosts from `situations/*.yaml`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

SITUATIONS = Path(__file__).parent / "situations"
Verdict = Literal[
    "added",
    "boots",
    "cgroupfs",
    "configured",
    "enabled",
    "holds",
    "loads",
    "named",
    "silent",
    "stays off",
    "systemd",
    "taken",
]


class Situation(BaseModel):
    """Files and state of a host, and the verdict that a test expects for them.

    Attributes:
        name: Short description of the situation.
        source: Repository with commit and path, issue, or manual page.
        wanted: Expected verdict; a comment in each YAML file explains its verdicts.
        says: Words that the error message must contain, if the product must refuse the host; in
            some kinds, words of what the product writes.
        because: Explanation of a surprising verdict.
        corrected: Why the expected verdict was changed. Empty if it never changed.
        open: Known gap because of which the test must fail. Empty: the test must pass.
        files: Text of the host's files by path.
        links: Targets of symbolic links by path.
        fstab: Text of /etc/fstab.
        kept: Lines of /etc/fstab that the program must not change.
        cmdline: The kernel's command line.
        os: Text of /etc/os-release.
        managers: Package managers of the system.
        smi: Output of a failing nvidia-smi. Empty: nvidia-smi succeeds.
        daemon: Text of Docker's daemon.json. None: there is no such file.
        exec: Flags of Docker's unit.
        containerd: Releases of containerd that read the files.
        lists: Runtimes, besides nvidia, that CRI must list.
        keeps: Values that the running configuration must keep.
        theirs: Packages that others have excluded from dnf.
        archive: Whether the declared apt repository has a suite and components.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    source: str
    wanted: Verdict
    says: tuple[str, ...] = ()
    because: str = ""
    corrected: str = ""
    open: str = ""
    files: Mapping[str, str] = {}
    links: Mapping[str, str] = {}
    fstab: str | None = None
    kept: tuple[str, ...] = ()
    cmdline: str = ""
    os: str = ""
    managers: tuple[str, ...] = ()
    smi: str = ""
    daemon: str | None = None
    exec: str = ""
    containerd: tuple[Literal[1, 2], ...] = ()
    lists: tuple[str, ...] = ()
    keeps: Mapping[str, str | int] = {}
    theirs: tuple[str, ...] = ()
    archive: bool = False

    def place(self, root: Path) -> None:
        """Write the host's files and symbolic links below a folder."""
        for path, text in self.files.items():
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="")
        for path, to in self.links.items():
            link = root / path.lstrip("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(to)

    @property
    def marks(self) -> tuple[pytest.MarkDecorator, ...]:
        """Return pytest's marks: a test with a known fault is expected to fail."""
        return (pytest.mark.xfail(reason=self.open, strict=True),) if self.open else ()


@functools.cache
def rows(kind: str) -> Mapping[str, Situation]:
    """Return the situations in `situations/<kind>.yaml` by their names."""
    text = (SITUATIONS / f"{kind}.yaml").read_text(encoding="utf-8")
    found = TypeAdapter(tuple[Situation, ...]).validate_python(yaml.safe_load(text))
    assert len({row.name for row in found}) == len(found), f"two rows of {kind} have one name"
    return {row.name: row for row in found}
