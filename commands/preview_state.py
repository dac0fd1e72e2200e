"""`make preview-state`: a copy of the stack's state that previews may open, without its secrets.

Deployments make it, after `make up`. Previews run code that nobody has merged: their backend and
their secrets provider are their own, and what they decrypt are placeholders.

A placeholder stands for each value that the state marks secret. So that a preview finds no change,
it is what the program declares there when each of the stack's secrets is a placeholder: a preview
of the copy, with a policy pack that writes the program's inputs to a file, shows that.

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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from commands.environment import ROOT, variables
from commands.placeholders import blinded, is_complete, placeholder
from commands.stack import Stack
from components.secrets import KEY_FILE
from policies.faults import Fault, FaultError
from policies.printable import printable_lines

LIMIT = 300
"""Seconds for one command of the engine."""
BACKEND, PROVIDER = "PREVIEW_BACKEND_URL", "PREVIEW_SECRETS_PROVIDER"
PHRASE = "PREVIEW_PASSPHRASE"
PROVIDER_KEYS = ("encryptionsalt", "secretsprovider", "encryptedkey")
OPENED = "preview:opened"
"""A value of no meaning in the stack file of previews, encrypted with their provider."""
ROUNDS = 5
"""Previews of the copy at most; a cluster that the stack makes takes three."""

Json = dict[str, Any]


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


def secrets_of(settings: Json) -> dict[str, str]:
    """Return the stack's secrets, from ``pulumi config --show-secrets --json``."""
    return {name: item["value"] for name, item in settings.items() if item["secret"]}


def opened_by(file: Path) -> Json:
    """Return the secrets provider that a stack file names, as a state does.

    The engine encrypts what it imports with the one that the state names (pulumi v3.250.0
    pkg/cmd/pulumi/stack/stack_import.go), which was that of deployments.
    """
    document = yaml.safe_load(file.read_text())
    if url := document.get("secretsprovider"):
        state = {"url": url, "encryptedkey": document["encryptedkey"]}
        return {"type": "cloud", "state": state}
    return {"type": "passphrase", "state": {"salt": document["encryptionsalt"]}}


def without_secrets(text: str, provider: str) -> tuple[str, list[str]]:
    """Return a stack file without what only deployments can decrypt, and its secrets' names.

    Args:
        text: the stack file.
        provider: what previews encrypt with: ``passphrase``, or a key's address.
    """
    document = yaml.safe_load(text)
    settings = document["config"]
    names = [
        name
        for name, item in settings.items()
        if isinstance(item, dict) and set(item) == {"secure"}
    ]
    kept = {key: item for key, item in document.items() if key not in PROVIDER_KEYS}
    kept["config"] = {name: item for name, item in settings.items() if name not in names}
    if provider != "passphrase":
        kept["secretsprovider"] = provider
    return yaml.safe_dump(kept, sort_keys=False), names


@dataclass(frozen=True)
class Copy:
    """The stack as previews have it.

    Attributes:
        name: the stack.
        folder: a folder with the project file, and with the stack file of previews.
        environment: that of previews.
    """

    name: str
    folder: Path
    environment: Mapping[str, str]

    @property
    def file(self) -> Path:
        """The stack file of previews."""
        return self.folder / f"Pulumi.{self.name}.yaml"

    def make(self, text: str) -> None:
        """Make the stack if it is missing, and its file.

        The engine writes the provider's part of the file when it makes a stack, but not for one
        that it finds: setting a value does it in both cases.

        Args:
            text: the stack file of deployments.
        """
        provider = self.environment.get(PROVIDER, "passphrase")
        shutil.copy(ROOT / "Pulumi.yaml", self.folder)
        select = ("stack", "select", "--create", "--secrets-provider", provider)
        self._pulumi(self.folder, *select)
        kept, names = without_secrets(text, provider)
        self.file.write_text(kept)
        for name in (*names, OPENED):
            self._pulumi(self.folder, "config", "set", "--secret", name, text=placeholder(name))

    def write(self, state: Json) -> None:
        """Replace the state by a blinded one."""
        state["deployment"]["secrets_providers"] = opened_by(self.file)
        self._pulumi(self.folder, "stack", "import", text=json.dumps(state))

    def declared(self) -> dict[str, Json]:
        """Return what the program declares there, by URN; neither hosts nor cluster are inspected.

        Raises:
            FaultError: the preview failed.
        """
        recorded = self.folder / "inputs"
        recorded.unlink(missing_ok=True)
        key = self.folder / "key"
        key.write_text(placeholder("gpu-cluster:sshPrivateKey"))
        environment = {
            "RECORDED_INPUTS": str(recorded),
            "GPU_CLUSTER_INSPECTION": "off",
            KEY_FILE: str(key),  # the file of a deployment holds a key that no mark tells of
        }
        self._pulumi(
            ROOT, "preview", "--config-file", str(self.file),
            "--policy-pack", str(ROOT / "commands" / "recorder"), **environment,
        )  # fmt: skip
        lines = map(json.loads, recorded.read_text().splitlines())
        return {line["urn"]: line["inputs"] for line in lines}

    def _pulumi(self, folder: Path, *arguments: str, text: str = "", **more: str) -> None:
        environment = {**self.environment, **more}
        pulumi(folder, environment, *arguments, "--stack", self.name, text=text)


def fill(copy: Copy, state: Json, secrets: Mapping[str, str]) -> None:
    """Write the blinded state, again until the program's declarations are known or don't change.

    An input that depends on an output of a resource is known once the resource has no change.
    """
    declared: dict[str, Json] = {}
    for _ in range(ROUNDS):
        copy.write(blinded(state, declared, secrets))
        if is_complete(state, declared):
            return
        found = copy.declared()
        if found == declared:
            return
        declared = found


def run(stack: Stack) -> dict[str, str]:
    """Make the copy; return the stack's secrets by their configuration key.

    Raises:
        FaultError: no copy could be made.
    """
    environment = {**os.environ, **variables(stack)}
    own, named = preview_environment(environment), ("--stack", stack.name)
    shown = pulumi(ROOT, environment, "config", "--show-secrets", "--json", *named)
    secrets = secrets_of(json.loads(shown))
    state = json.loads(pulumi(ROOT, environment, "stack", "export", "--show-secrets", *named))
    with tempfile.TemporaryDirectory() as made:
        copy = Copy(stack.name, Path(made), own)
        copy.make(stack.file.read_text())
        fill(copy, state, secrets)
    return secrets


def main() -> None:
    """Run the command; exit code 1 if no copy could be made."""
    stack = Stack.current()
    try:
        with stack.unsalted():
            secrets = run(stack)
    except FaultError as error:
        sys.exit(str(error))
    names = ", ".join(f"{name} as {placeholder(name)!r}" for name in sorted(secrets))
    print(f"preview-state: {len(secrets)} secrets replaced ({names or 'the stack has none'})")


if __name__ == "__main__":
    main()
