"""The folder of the Pulumi project that a command works on, and the stack files in it."""

from __future__ import annotations

import re
from pathlib import Path

NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
"""Names that Pulumi allows for a stack.

Source: pulumi/pulumi, sdk/go/common/tokens, ParseStackName.
"""


PROJECT = "gpu-cluster"
"""Name of the project in `Pulumi.yaml`, a folder of a local backend."""


def find_project(start: Path) -> Path:
    """Return the nearest folder with a `Pulumi.yaml`, upwards; the start itself if there is none.

    Args:
        start: An absolute path.
    """
    for folder in (start, *start.parents):
        if (folder / "Pulumi.yaml").is_file():
            return folder
    return start


ROOT = find_project(Path.cwd())


def stack_names(folder: Path) -> list[str]:
    """Return the names of the stacks whose files are in a folder."""
    return sorted(
        path.name[len("Pulumi.") : -len(".yaml")] for path in folder.glob("Pulumi.*.yaml")
    )


def require_project_name() -> None:
    """Check that the project is called as names in the state call it; exit with 1 if it is not."""
    import sys

    try:
        text = (ROOT / "Pulumi.yaml").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    if (found := re.search(r"^name:[ ]*[\"']?([\w.-]+)", text, re.MULTILINE)) and found[
        1
    ] != PROJECT:
        sys.exit(
            f"Pulumi.yaml: found name {found[1][:100]}; wanted: {PROJECT}, which is part of all "
            f"names in the state; cure: write name: {PROJECT}"
        )


def require_stack_file(name: str) -> None:
    """Check that a stack has a file, before slow imports.

    Exit with 1 if there is none; the message names the stacks that exist.
    """
    require_project_name()
    if NAME.fullmatch(name) and (ROOT / f"Pulumi.{name}.yaml").is_file():
        return
    import difflib
    import sys

    from gpu_rules.printable import printable

    names = stack_names(ROOT)
    alike = difflib.get_close_matches(name, names, 1)
    cures = [f"did you mean {alike[0]}?"] if alike else []
    wanted = f"one of {', '.join(names)}" if names else "a stack file"
    if not (ROOT / "Pulumi.yaml").is_file():
        found, wanted = "no Pulumi.yaml in this folder or above", "a Pulumi project"
        cures = ["change to the project's folder"]
    elif not NAME.fullmatch(name):
        found = "a name that no stack can have"
        cures = ["write a name of letters, digits, '-', '_' and '.'"]
    else:
        found = f"no file Pulumi.{name}.yaml in {ROOT}"
        cures.append(f"`gpu-cluster new --stack {name}` writes a new one")
    # Don't use `Fault`, which prints the same: its imports take longer than everything else here.
    place = f"stack {printable(name, 72)!r}"
    sys.exit(f"{place}: found {printable(found)}; wanted: {wanted}; cure: {' '.join(cures)}")
