"""Put settings into a stack file: ``python apply.py Pulumi.dev.yaml``, the settings on stdin.

A section of the settings stands in place of the file's section of that name; the rest of the file
stays. The proof of the documentation runs this file by its path.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

KEY = "gpu-cluster:cluster"


def main() -> None:
    """Put the settings of standard input into the stack file that the first argument names."""
    file = Path(sys.argv[1])
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    document["config"][KEY] |= yaml.safe_load(sys.stdin)
    file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


if __name__ == "__main__":
    main()
