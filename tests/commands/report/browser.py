"""Check of an HTML page for accessibility by axe-core in a real Chromium.

Chromium is Debian's package `chromium`; axe-core comes from npm and is checked by its digest.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_lab import toolchain

AXE = "4.14.1"
DIGEST = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
"""SHA-512 of the npm package, as the registry states it."""
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
SCRIPT = """
axe.run(document, {resultTypes: ["violations", "incomplete"]}).then(found => {
  const html = one => one.nodes.slice(0, 3).map(node => node.html);
  const short = each => each.map(one => ({id: one.id, nodes: html(one)}));
  const made = {
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    passes: found.passes.map(one => one.id),
    violations: short(found.violations),
    incomplete: short(found.incomplete),
  };
  document.body.textContent = JSON.stringify(made);
  document.title = "judged";
});
"""
LIMIT = 300
"""Seconds until Chromium is ended."""


@dataclass(frozen=True)
class Judgement:
    """Result of axe-core's accessibility check of a page.

    Attributes:
        dark: Whether the page was shown in dark mode.
        passes: Rules that the page passes.
        violations: Rules that the page violates, with the first elements.
        incomplete: Rules that axe-core could not decide.
    """

    dark: bool
    passes: list[str]
    violations: list[Any]
    incomplete: list[Any]


def axe() -> str:
    """Return the JavaScript code of axe-core; skip the test if npm can't download it."""
    kept = toolchain.cache_dir() / "axe" / f"axe-core-{AXE}.tgz"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            command = ["npm", "pack", "--silent", f"axe-core@{AXE}"]
            try:
                subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
            except (OSError, subprocess.SubprocessError):
                pytest.skip(f"npm has no axe-core {AXE}")
            os.replace(Path(folder) / kept.name, kept)
    content = kept.read_bytes()
    assert base64.b64encode(hashlib.sha512(content).digest()).decode() == DIGEST
    with tarfile.open(kept) as archive:
        file = archive.extractfile("package/axe.min.js")
        assert file is not None
        return file.read().decode()


def chromium() -> str:
    """Return the path of Chromium; skip the test if there is none."""
    return shutil.which("chromium") or pytest.skip("no Chromium: apt-get install chromium")


def run(page: Path, *arguments: str) -> str:
    """Open a file in Chromium without network access, and return Chromium's output."""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [
                chromium(),
                "--headless",
                # Root has no sandbox in Chromium; the page is trusted: this project made it.
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--host-resolver-rules=MAP * ~NOTFOUND",
                f"--user-data-dir={profile}",
                *arguments,
                page.as_uri(),
            ],
            check=True,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
    return done.stdout


def in_frame(text: str, folder: Path, script: str, width: int) -> Any:
    """Return the value of a script about a page that is shown in a narrow frame.

    Args:
        text: HTML of the page.
        script: JavaScript expression; `page` is the frame's document.
        width: Width of the frame in pixels.
    """
    without, count = POLICY.subn("", text)
    assert count == 1
    frame = (
        f'<iframe style="width:{width}px;height:900px" srcdoc="{html.escape(without)}"></iframe>'
    )
    code = (
        "onload = () => { const page = document.querySelector('iframe').contentDocument;"
        f"document.body.textContent = JSON.stringify({script}); }}"
    )
    path = folder / "frame.html"
    path.write_text(f"<!doctype html><body>{frame}<script>{code}</script></body>", encoding="utf-8")
    dom = run(path, "--dump-dom", "--virtual-time-budget=10000")
    return json.loads(html.unescape(dom[dom.index("<body>") + 6 : dom.rindex("</body>")]))


def judged(text: str, folder: Path, *, dark: bool) -> Judgement:
    """Return the result of axe-core's check of a page.

    The page's Content Security Policy forbids scripts, so axe-core checks a copy without it.
    """
    without, count = POLICY.subn("", text)
    assert count == 1
    script = f"<script>{axe()}</script><script>{SCRIPT}</script>"
    path = folder / "page.html"
    path.write_text(without.replace("</body>", f"{script}</body>"), encoding="utf-8")
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    dom = run(path, "--dump-dom", "--virtual-time-budget=100000", "--timeout=250000", scheme)
    assert "<title>judged</title>" in dom, dom[-2000:]
    body = dom[dom.index("<body>") + 6 : dom.rindex("</body>")]
    return Judgement(**json.loads(html.unescape(body)))
