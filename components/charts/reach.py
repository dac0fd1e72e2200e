"""Whether a chart's place answers, asked before the first host is changed. Reads only.

The engine fetches a chart, also an unchanged one, when the resources before it are done, and hosts
are among them (pulumi-kubernetes 4.25.0, helm_release.go, Check): a repository that doesn't answer
would leave prepared hosts and no platform.
"""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from pathlib import Path

#: Seconds for an answer, proxies included: those of the environment, as Helm takes them.
ANSWER = 10.0
#: Bytes that are read of an answer; that it comes is what counts.
TAKEN = 1024


async def unreachable(place: str) -> str:
    """Why a chart can't be fetched from a place; empty where nothing speaks against it.

    Args:
        place: as `components.charts.source.location` gives it.
    """
    if place.startswith("oci://"):
        # Each registry has it, and may want a log-in there (OCI distribution spec, end-1).
        registry = place.removeprefix("oci://").partition("/")[0]
        return await asyncio.to_thread(_asked, f"https://{registry}/v2/", (200, 401))
    if place.startswith(("https://", "http://")):
        # Helm documentation, "The Chart Repository Guide": the index file.
        return await asyncio.to_thread(_asked, f"{place.rstrip('/')}/index.yaml", (200,))
    folder = Path(place).expanduser()
    return "" if (folder / "Chart.yaml").is_file() else "a folder without Chart.yaml"


def _asked(url: str, answers: tuple[int, ...]) -> str:
    try:
        with urllib.request.urlopen(url, timeout=ANSWER) as answer:  # noqa: S310 # http alone
            answer.read(TAKEN)
            status = answer.status
    except urllib.error.HTTPError as error:
        status = error.code
        error.close()
    except urllib.error.URLError as error:
        return f"no answer from {url} ({error.reason})"
    except (OSError, ValueError) as error:
        return f"no answer from {url} ({error})"
    return "" if status in answers else f"HTTP {status} from {url}"
