"""Make mutants of host scripts: a function of the script is emptied."""

from __future__ import annotations

SAYS_NO = ("differs",)
"""Shell functions used as conditions: the emptied version returns 1, because 0 means true."""


def emptied(script: str, *names: str) -> str:
    """Return the script with second, empty definitions of the functions, which the shell uses."""
    *rest, call = script.splitlines()
    bodies = ["return 1" if name in SAYS_NO else ":" for name in names]
    lines = [f"{name}() {{ {body}; }}" for name, body in zip(names, bodies, strict=True)]
    return "\n".join([*rest, *lines, call]) + "\n"


def emptied_of(name: str, text: str) -> str:
    return emptied(text, name)
