"""Make mutants of host scripts: scripts in which one shell function does nothing."""

from __future__ import annotations

SAYS_NO = ("differs",)
"""Shell functions used as conditions: the emptied version returns 1, because 0 means true."""


def emptied(script: str, *names: str) -> str:
    """Return a script in which the given functions are defined again with empty bodies.

    The shell uses the last definition of a function.
    """
    *rest, call = script.splitlines()
    bodies = ["return 1" if name in SAYS_NO else ":" for name in names]
    lines = [f"{name}() {{ {body}; }}" for name, body in zip(names, bodies, strict=True)]
    return "\n".join([*rest, *lines, call]) + "\n"


def emptied_of(name: str, text: str) -> str:
    return emptied(text, name)
