"""Compare the table with the documents: `python -m tests.proofs.documents FILE...`.

The files are the documents in the order of `DOCUMENTS`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.proofs.documents.lines import DOCUMENTS, lines


def main() -> None:
    if len(sys.argv) != len(DOCUMENTS) + 1:
        sys.exit(f"Name {len(DOCUMENTS)} files: {', '.join(DOCUMENTS)}")
    texts = {
        name: Path(path).read_text(encoding="utf-8").splitlines()
        for name, path in zip(DOCUMENTS, sys.argv[1:], strict=True)
    }
    wrong = [
        line.name
        for line in lines()
        if line.words not in "".join(texts[line.document][line.number - 1 : line.number])
    ]
    sys.exit(f"other words: {', '.join(wrong)}" if wrong else 0)


if __name__ == "__main__":
    main()
