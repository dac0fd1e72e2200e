"""Draw README's pictures: the report's page and the comment of a pull request.

Command: ``make pictures``. Both show made-up clusters. Chromium, Debian's package `chromium`, draws
them without network access. `docs/images/sources.json` keeps the SHA-256 of the HTML from which
each picture was drawn, so that a test finds a picture that is older than the page.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

from gpu_cluster.commands.forges.comment_markdown import Origin, rendered
from gpu_cluster.commands.report.page import page
from tests.commands.report.browser import run
from tests.commands.report.reports import of_size
from tests.components.change.edits import document_of

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "images"
SOURCES: Final = FOLDER / "sources.json"
SIZES: Final = {"page": (1100, 900), "comment": (900, 510)}
"""Width and height of each picture in pixels."""
EDIT: Final = "the loaded driver goes down"
"""Edit of a stack file that the comment is about."""
COMMENT: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Comment of a pull request</title><style>
body {{ font: 14px/1.5 sans-serif; color: #1f2328; margin: 24px }}
article {{ border: 1px solid #d1d9e0; border-radius: 6px; padding: 4px 20px 14px }}
h3 {{ font-size: 18px }}
code {{ background: #eff1f3; border-radius: 4px; padding: 1px 5px; font: 12px monospace }}
table {{ border-collapse: collapse }}
td, th {{ border: 1px solid #d1d9e0; padding: 4px 10px; text-align: left }}
details {{ margin: 8px 0 }}
</style></head><body><article>
{}</article></body></html>
"""


def sources() -> dict[str, str]:
    """Return the HTML of each picture by the picture's name."""
    comment = rendered(document_of(EDIT), Origin(commit="8c1f0a2b94d7"))
    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    return {"page": page(of_size(4)), "comment": COMMENT.format(markdown.render(comment))}


def digests() -> dict[str, str]:
    """Return the SHA-256 of each picture's HTML in hexadecimal digits."""
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sources().items()}


def main() -> None:
    """Draw all pictures into `FOLDER`, and write `SOURCES`.

    Raises:
        subprocess.CalledProcessError: Chromium failed.
        pytest.skip.Exception: Chromium is not installed.
    """
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in sources().items():
            path = Path(folder) / f"{name}.html"
            path.write_text(text, encoding="utf-8")
            width, height = SIZES[name]
            picture = FOLDER / f"{name}.png"
            run(
                path,
                f"--screenshot={picture}",
                f"--window-size={width},{height}",
                "--hide-scrollbars",
                "--blink-settings=preferredColorScheme=1",
            )
    SOURCES.write_text(json.dumps(digests(), indent=2) + "\n")


if __name__ == "__main__":
    main()
