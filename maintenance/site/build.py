"""Program of `make site`: build the documentation as a site into ``site/VERSION/``.

The version is that of the tag `v*` at the current commit, otherwise `next`. ``site/`` may hold
several versions: ``site/versions.json`` names all of them for the pages' selector, and
``site/index.html`` leads to the newest. To publish older versions too, unpack the sites of their
releases there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from gpu_cluster.commands.files import ROOT
from maintenance.version import tagged

SITE = ROOT / "site"
UNRELEASED = "next"
INDEX = (
    '<!doctype html><meta charset="utf-8"><title>gpu-cluster</title>'
    '<meta http-equiv="refresh" content="0; url={0}/index.html"><a href="{0}/index.html">{0}</a>\n'
)


def build(folder: Path, version: str) -> None:
    """Build the site into a folder; exit if a page has a fault, as a dead link.

    Args:
        folder: The folder; it is emptied before.
        version: Version that the pages show.
    """
    command: list[str | Path] = [
        ROOT / "venv-site" / "bin" / "python",
        "-m",
        "mkdocs",
        "build",
        "--quiet",
    ]
    environment = {**os.environ, "SITE_VERSION": version, "NO_MKDOCS_2_WARNING": "true"}
    done = subprocess.run([*command, "--site-dir", folder], cwd=ROOT, env=environment, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def list_versions(site: Path) -> None:
    """Write the list of the versions in a folder, and the page that leads to the newest."""

    def newest_first(version: str) -> list[int]:
        return [-int(number) if number.isdigit() else 1 for number in version.split(".")]

    versions = sorted((path.parent.name for path in site.glob("*/index.html")), key=newest_first)
    listed = [{"version": name, "title": name, "aliases": []} for name in versions]
    (site / "versions.json").write_text(json.dumps(listed, indent=1) + "\n")
    (site / "index.html").write_text(INDEX.format(versions[0]))


def main() -> None:
    """Build the site of the current commit, and list the versions next to it."""
    version = tagged() or UNRELEASED
    build(SITE / version, version)
    list_versions(SITE)
    print(f"site: {SITE / version / 'index.html'}")


if __name__ == "__main__":
    main()
