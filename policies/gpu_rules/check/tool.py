"""Run helm, kustomize or kubectl to render manifests, without downloads and user settings."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Final

from ..printable import printable

_LIMIT: Final = 60.0
"""Time limit in seconds; the largest kustomizations of public repositories need under 10 s."""
# Maximum length of an error message, in characters.
_SHOWN: Final = 300
_NOWHERE: Final = "http://127.0.0.1:1"
"""Address of a proxy that refuses connections, so that the programs can't download anything."""


_WRAPPING: Final = re.compile(
    r'^[Ee]rror: |E\d{4} .*? err="|'
    "accumulating resources: accumulation err='accumulating resources from '[^']*': "
)
"""Parts of the error messages of kustomize, kubectl and helm that don't name the cause."""


class NotRendered(Exception):
    """Rendering a Helm chart or kustomization failed; the message is the reason."""


def output_of(command: Sequence[str]) -> str:
    """Run a program in an isolated environment, and return its standard output.

    Args:
        command: Absolute path of the program, and its arguments.

    Raises:
        NotRendered: The program failed or reached the time limit.
    """
    with tempfile.TemporaryDirectory(prefix="gpu-rules-") as home:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LIMIT,
                check=False,
                env=_environment(home),
            )
        except subprocess.TimeoutExpired:
            raise NotRendered(f"{command[0]} did not end within {_LIMIT:.0f} s") from None
        except OSError as error:
            raise NotRendered(f"{command[0]}: {error.strerror}") from None
    if done.returncode:
        raise NotRendered(shortened(done.stderr.decode(errors="replace")))
    return done.stdout.decode(errors="replace")


def shortened(reason: str) -> str:
    """Return the error message of helm, kustomize or kubectl as one short, printable line.

    Only the end of a long message is kept, because these programs write the cause at the end.
    """
    line = _WRAPPING.sub("", re.sub(r"\s+", " ", reason)).strip()
    line = printable(line) or "no reason given"
    return line if len(line) <= _SHOWN else f"…{line[1 - _SHOWN :]}"


def _environment(home: str) -> dict[str, str]:
    return {
        "HOME": home,
        "TMPDIR": home,
        # With the empty folder as PATH, kustomize finds no git and cannot clone a remote base.
        "PATH": home,
        "KUBECONFIG": os.devnull,
        "HELM_NO_PLUGINS": "1",
        # One program runs on each core. These settings of Go save a quarter of the processor time
        # of kubectl kustomize (measured on 60 kustomizations of mirceanton/home-ops).
        "GOMAXPROCS": "1",
        "GOGC": "400",
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _NOWHERE),
    }
