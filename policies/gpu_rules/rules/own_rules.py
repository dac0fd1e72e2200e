"""Load user-defined rules from a folder, without a change of this package.

A rule is a module `gpu9NN_<what>.py` with `RULE`, `TWIN` and `EXAMPLE`, as the modules of this
package are; ids from GPU900 on are never used here. It may import from this package by relative
names, such as `from ..rule import Finding, Rule, Subject`.

Loading a module runs it. So a folder must come from a configuration that its reader trusts, never
from the files that are checked.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

from ..faults import Fault
from .discovery import Entry, RuleError, read

_PACKAGE: Final = f"{__package__}.own"
OWN: Final = re.compile("GPU9[0-9]{2}")
"""Pattern of the ids of user-defined rules."""
_FORM: Final = "gpu9[0-9][0-9]_*.py"


def load(folder: Path) -> tuple[Entry, ...]:
    """Return the rules in a folder, sorted by id; a second call returns the same rules.

    Args:
        folder: Folder with modules of rules.

    Raises:
        RuleError: The folder has no rules, or a module can't be loaded or lacks `RULE`, `TWIN` or
            `EXAMPLE`.
    """
    paths = sorted(folder.glob(_FORM))
    if not paths:
        cure = "name the folder with them in ruleFolder"
        raise RuleError(Fault(str(folder), "no rules", "modules gpu9NN_<what>.py", cure))
    if _PACKAGE not in sys.modules:
        package = ModuleType(_PACKAGE)
        package.__path__ = []
        sys.modules[_PACKAGE] = package
    return tuple(map(_load_entry, paths))


def _load_entry(path: Path) -> Entry:
    name = f"{_PACKAGE}.{path.stem}"
    wanted = path.stem[:6].upper()
    module = ModuleType(name)
    module.__file__, module.__package__ = str(path), _PACKAGE
    sys.modules[name] = module
    try:
        # Without Python's cache, which takes a file of the same second and length for unchanged.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)  # noqa: S102
    except Exception as error:
        # Whatever a user's module raises, the message must name the module.
        found = f"{type(error).__name__}: {error}"
        raise RuleError(
            Fault(
                str(path),
                found,
                "a module that Python can import",
                "correct this error in the module",
            )
        ) from error
    entry = read(module)
    if entry.rule.id != wanted:
        raise RuleError(Fault(str(path), f"the id {entry.rule.id}", wanted, "rename one of them"))
    return entry
