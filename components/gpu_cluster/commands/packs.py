"""Policy packs that the engine starts with the Python of this environment."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import yaml

from gpu_cluster.change.file import replace_text
from gpu_cluster.machine.folders import cache_dir, make_private

_PACKAGE = Path(__file__).resolve().parents[1]
RULES = _PACKAGE / "guardrails" / "pack"
"""The pack with the GPU rules."""
RECORDER = _PACKAGE / "commands" / "recorder"
"""The pack that writes the inputs of each declared resource to a file."""


def place_pack(source: Path) -> str:
    """Return the folder of a policy pack, for the engine's option ``--policy-pack``.

    A pack's file names the virtual environment by a path relative to the pack. This path is right
    in a clone. Elsewhere the folder is made in the cache: its file names this environment, and its
    program runs that of the source.

    Args:
        source: Folder of the pack in this package.
    """
    settings = yaml.safe_load((source / "PulumiPolicy.yaml").read_text(encoding="utf-8"))
    options = settings["runtime"]["options"]
    if (source / options["virtualenv"]).resolve() == Path(sys.prefix).resolve():
        return str(source)
    options["virtualenv"] = sys.prefix
    environment = hashlib.sha256(f"{sys.prefix}\0{source}".encode()).hexdigest()[:16]
    folder = cache_dir() / "packs" / f"{source.name}-{environment}"
    make_private(folder)
    program = (
        f"import runpy\n\nrunpy.run_path({str(source / '__main__.py')!r}, run_name='__main__')\n"
    )
    replace_text(folder / "__main__.py", program)
    replace_text(folder / "PulumiPolicy.yaml", yaml.safe_dump(settings, sort_keys=False))
    return str(folder)


def main() -> None:
    """Print the folder of the pack with the GPU rules."""
    print(place_pack(RULES))
