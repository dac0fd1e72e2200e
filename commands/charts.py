"""Which charts an embedded stack installs: the real ones where they can be had."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from components.platforms.discovery import every
from components.settings.chart_source import is_own

FAKE_CHARTS = "lab/simulator/charts"

#: Seconds for a repository's index to begin to arrive.
LIMIT = 3


def _reached(repository: str) -> bool:
    try:
        with urllib.request.urlopen(f"{repository}/index.yaml", timeout=LIMIT):  # noqa: S310
            return True
    except (urllib.error.URLError, OSError):
        return False


def directory() -> str:
    """The folder of charts for `GPU_CHARTS`; empty where the repositories are reached.

    What the user has set goes before, then the repositories, then the simulator's substitutes.
    """
    if "GPU_CHARTS" in os.environ:
        return os.environ["GPU_CHARTS"]
    with ThreadPoolExecutor() as pool:
        places = {platform.repository for platform in every()}
        reached = all(pool.map(_reached, [place for place in places if not is_own(place)]))
    return "" if reached else FAKE_CHARTS
