"""Print the test files of a proof: `python -m tests.proofs NAME`."""

from __future__ import annotations

import sys

from tests.proofs import PROOFS, arguments


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in PROOFS:
        sys.exit(f"Name one proof of {', '.join(PROOFS)}: python -m tests.proofs NAME")
    print(*arguments(sys.argv[1]))


if __name__ == "__main__":
    main()
