"""Program of `make release`: write the files of a release to ``dist/``, from the current commit.

The source archive is made by `git archive` with the commit's time, so everybody who checks out the
tag gets the same bytes. The other files are the bill of materials and the SHA-256 sums of both.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys

from commands.files import ROOT
from commands.sbom import bom

DIST = ROOT / "dist"


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout


def main() -> None:
    """Write the files of a release; refuse a working tree that differs from the commit."""
    if changed := _git("status", "--porcelain").decode():
        sys.exit(f"release: found changes ({changed.split()[1]} …); wanted: a commit; cure: commit")
    name = f"gpu-cluster-{_git('describe', '--tags', '--always').decode().strip()}"
    DIST.mkdir(exist_ok=True)
    tar = _git("archive", f"--prefix={name}/", "--format=tar", "HEAD")
    files = {
        f"{name}.tar.gz": gzip.compress(tar, mtime=0),
        f"{name}.cdx.json": json.dumps(bom(), indent=1, sort_keys=True).encode() + b"\n",
    }
    for file, content in files.items():
        (DIST / file).write_bytes(content)
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {file}\n" for file, data in files.items())
    (DIST / "SHA256SUMS").write_text(sums)
    print(sums, end="")


if __name__ == "__main__":
    main()
