"""Minimal replacement of kubectl that supports `--kubeconfig FILE get --raw PATH`.

kwokctl makes only this call: it checks the API server's health with the kubectl on PATH. If kubectl
is missing, kwokctl downloads it. The embedded cluster must depend neither on an installed kubectl
nor on a download.
"""

from __future__ import annotations

import shlex
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path

import yaml


def write_kubectl(folder: Path) -> None:
    """Install this module as the program `kubectl` in a folder for `PATH`."""
    path = folder / "kubectl"
    path.parent.mkdir(parents=True, exist_ok=True)
    command = shlex.join([sys.executable, "-I", str(Path(__file__))])
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def main(arguments: list[str]) -> int:
    """Print the API server's response to the request; return 1 on failure, as kubectl does."""
    kubeconfig = Path(arguments[arguments.index("--kubeconfig") + 1])
    path = arguments[arguments.index("--raw") + 1]
    document = yaml.safe_load(kubeconfig.read_text())
    cluster = document["clusters"][0]["cluster"]
    user = document["users"][0]["user"]
    context = ssl.create_default_context(cafile=cluster["certificate-authority"])
    context.load_cert_chain(user["client-certificate"], user["client-key"])
    try:
        # The server's URL in kwokctl's kubeconfig is always an https URL.
        url = cluster["server"] + path
        # The server is on loopback, which no proxy of the environment reaches.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(url, timeout=5) as answer:
            sys.stdout.write(answer.read().decode())
    except (urllib.error.URLError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
