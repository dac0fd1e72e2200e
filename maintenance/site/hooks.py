"""Hooks of mkdocs: the site's navigation, its files outside of docs/, and GitHub's Markdown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from maintenance.site.github import for_mkdocs
from maintenance.site.pages import in_repository, in_site, navigation, outside, relinked


def on_config(config: Any) -> Any:
    """Give the site its navigation and its version."""
    config.nav = navigation()
    config.copyright = f"gpu-cluster, version {os.environ['SITE_VERSION']}"
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the files outside of docs/ that pages link to, and the style."""
    for path in sorted(outside()):
        files.append(File.generated(config, in_site(path), abs_src_path=str(path)))
    style = Path(__file__).with_name("site.css")
    files.append(File.generated(config, style.name, abs_src_path=str(style)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return a page as Python-Markdown must read it."""
    return for_mkdocs(relinked(in_repository(page.file.src_uri), markdown))
