"""Parser of a command line that suggests the nearest right word for a wrong one.

The command line `gpu-cluster` imports this module to print its help, which must be fast: it must
not import other modules of the packages.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import Any, NoReturn

WRONG = 2
"""Exit code for wrong arguments, if a parser has no other."""
_CHOICE = re.compile(r"invalid choice: '(?P<word>.*)' \(choose from (?P<choices>.*)\)", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """Parser that refuses wrong arguments in one line, with the nearest right word.

    Attributes:
        wrong: Exit code for wrong arguments.
    """

    wrong = WRONG

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the arguments; exit on an unknown option or argument."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            kind = "option" if unknown[0].startswith("-") else "argument"
            word = unknown[0].partition("=")[0]
            self.error(f"no {kind} {word!r}{nearest(word, self._option_string_actions)}")
        return options, unknown

    def error(self, message: str) -> NoReturn:
        """Print what is wrong with the arguments, and exit."""
        if wrong := _CHOICE.search(message):
            near = nearest(wrong["word"], re.findall(r"[\w-]+", wrong["choices"]))
            message = message.replace(" (choose from", f"{near} (choose from")
        self.exit(self.wrong, f"{self.prog}: {message}; `{self.prog} --help` lists all\n")


def nearest(word: str, names: Iterable[str]) -> str:
    """Return a question that names the right words that are nearest to a wrong word, or nothing."""
    import difflib

    alike = difflib.get_close_matches(word, [*names])
    return f"; did you mean {' or '.join(alike)}?" if alike else ""
