"""Choice of the Helm charts for an embedded stack: the official charts, or fake ones offline."""

from __future__ import annotations

import os
import urllib.error
from concurrent.futures import ThreadPoolExecutor

from gpu_cluster.charts.download import opener
from gpu_cluster.charts.links import PROJECT_FILES
from gpu_cluster.platforms.discovery import every
from gpu_cluster.settings.chart_source import is_own

FAKE_CHARTS = f"{PROJECT_FILES}/charts"
"""Link to the fake charts, relative to the project: the state has no path of an environment."""

# Seconds to wait for a chart repository to answer a request for its index.
LIMIT = 3


def _is_reached(repository: str) -> bool:
    try:
        with opener().open(f"{repository}/index.yaml", timeout=LIMIT):
            return True
    except (urllib.error.URLError, OSError):
        return False


def directory() -> str:
    """Return the folder of Helm charts to set as `GPU_CHARTS`; empty to use the chart repositories.

    The user's own `GPU_CHARTS` has priority. Without it the official repositories are used if all
    of them can be reached, else the fake charts of the simulator.
    """
    if "GPU_CHARTS" in os.environ:
        return os.environ["GPU_CHARTS"]
    with ThreadPoolExecutor() as pool:
        places = {platform.repository for platform in every()}
        reached = all(pool.map(_is_reached, [place for place in places if not is_own(place)]))
    return "" if reached else FAKE_CHARTS
