"""`make preview-state`: a copy of the stack's state that previews may open, without its secrets.

Deployments make it, after `make up`. Previews run code that nobody has merged: their backend and
their secrets provider are their own, and what they decrypt are placeholders.

Reads: PREVIEW_BACKEND_URL; PREVIEW_SECRETS_PROVIDER, ``passphrase`` by default, with
PREVIEW_PASSPHRASE. Backends are folders and buckets; Pulumi Cloud's access token is taken away.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from commands.environment import ROOT, variables
from commands.placeholders import blinded, placeholder
from commands.stack import Stack
from config.printable import printable_lines
from config.problem import Fault, FaultError

LIMIT = 300
"""Seconds for one command of the engine."""
BACKEND, PROVIDER = "PREVIEW_BACKEND_URL", "PREVIEW_SECRETS_PROVIDER"
PHRASE = "PREVIEW_PASSPHRASE"


def pulumi(folder: Path, environment: dict[str, str], *arguments: str, text: str = "") -> str:
    """What a command of the engine prints.

    Raises:
        FaultError: it failed. Its standard output may hold secrets and isn't repeated.
    """
    done = subprocess.run(
        ["pulumi", *arguments, "--non-interactive", "--color", "never"],
        cwd=folder,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if done.returncode:
        raise FaultError(
            Fault(
                f"pulumi {' '.join(arguments[:2])}",
                printable_lines(done.stderr.strip())[-2000:],
                "it succeeds",
                "see its message",
            )
        )
    return done.stdout


def preview_environment(environment: dict[str, str]) -> dict[str, str]:
    """The environment in which previews open their copy.

    Raises:
        FaultError: no backend for previews is named, or it is the deployments' own.
    """
    url = environment.get(BACKEND, "")
    if not url or url == environment.get("PULUMI_BACKEND_URL"):
        raise FaultError(
            Fault(
                BACKEND,
                "the backend that deployments use" if url else "nothing",
                "a backend of previews' own",
                f"set {BACKEND} to another bucket or folder",
            )
        )
    secret = ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE", "PULUMI_ACCESS_TOKEN")
    own = {name: value for name, value in environment.items() if name not in secret}
    own["PULUMI_BACKEND_URL"] = url
    if phrase := environment.get(PHRASE):
        own["PULUMI_CONFIG_PASSPHRASE"] = phrase
    return own


def secrets_of(settings: dict[str, Any]) -> dict[str, str]:
    """The stack's secrets, from ``pulumi config --show-secrets --json``."""
    return {name: item["value"] for name, item in settings.items() if item["secret"]}


def opened_by(file: Path) -> dict[str, Any]:
    """The secrets provider that a stack file names, as a state does.

    The engine encrypts what it imports with the one that the state names (pulumi v3.250.0
    pkg/cmd/pulumi/stack/stack_import.go), which was that of deployments.
    """
    document = yaml.safe_load(file.read_text())
    if url := document.get("secretsprovider"):
        state = {"url": url, "encryptedkey": document["encryptedkey"]}
        return {"type": "cloud", "state": state}
    return {"type": "passphrase", "state": {"salt": document["encryptionsalt"]}}


def main() -> None:
    """Runs the command; exit code 1 where no copy could be made."""
    stack = Stack.current()
    environment = {**os.environ, **variables(stack)}
    try:
        own = preview_environment(environment)
        named = ("--stack", stack.name)
        shown = pulumi(ROOT, environment, "config", "--show-secrets", "--json", *named)
        secrets = secrets_of(json.loads(shown))
        state = pulumi(ROOT, environment, "stack", "export", "--show-secrets", *named)
        copy = blinded(json.loads(state), secrets)
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            shutil.copy(ROOT / "Pulumi.yaml", folder)
            provider = environment.get(PROVIDER, "passphrase")
            select = ("stack", "select", "--create", "--secrets-provider", provider, *named)
            pulumi(folder, own, *select)
            copy["deployment"]["secrets_providers"] = opened_by(folder / stack.file.name)
            pulumi(folder, own, "stack", "import", *named, text=json.dumps(copy))
    except FaultError as error:
        sys.exit(str(error))
    names = ", ".join(f"{name} as {placeholder(name)!r}" for name in sorted(secrets))
    print(f"preview-state: {len(secrets)} secrets replaced ({names or 'the stack has none'})")


if __name__ == "__main__":
    main()
