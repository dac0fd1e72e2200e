"""Minimal replacement of kubectl for the only call of kwokctl: `--kubeconfig FILE get --raw PATH`.

kwokctl checks the API server's health with the kubectl on PATH, and downloads kubectl if it is
missing. The embedded cluster must depend on neither.
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
    """Install this program as `kubectl` in a folder for `PATH`."""
    path = folder / "kubectl"
    path.parent.mkdir(parents=True, exist_ok=True)
    command = shlex.join([sys.executable, "-I", str(Path(__file__))])
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def main(arguments: list[str]) -> int:
    """Print the API server's response; return 1 on failure, as kubectl does."""
    kubeconfig = Path(arguments[arguments.index("--kubeconfig") + 1])
    path = arguments[arguments.index("--raw") + 1]
    document = yaml.safe_load(kubeconfig.read_text())
    cluster = document["clusters"][0]["cluster"]
    user = document["users"][0]["user"]
    context = ssl.create_default_context(cafile=cluster["certificate-authority"])
    context.load_cert_chain(user["client-certificate"], user["client-key"])
    try:
        url = cluster["server"] + path  # kwokctl's kubeconfig always has an https URL.
        with urllib.request.urlopen(url, timeout=5, context=context) as answer:  # noqa: S310
            sys.stdout.write(answer.read().decode())
    except (urllib.error.URLError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
