"""Run `gpu-cluster preview-state`: copy the stack's state, without its secrets, for previews.

Deployments run it after `gpu-cluster up`. A preview runs code that nobody has merged yet. So
previews have a backend and a secrets provider that deployments don't use, and the secrets that
they can decrypt are only placeholders.

Each secret value of the state is replaced by the value that the program declares if all secrets of
the stack are placeholders. This way a preview of an unchanged program shows no change. To find
these values, this command previews the copy with a policy pack that writes the program's inputs to
a file.

Environment variables: PREVIEW_BACKEND_URL is the backend for previews, a folder or a bucket.
PREVIEW_SECRETS_PROVIDER is the secrets provider for previews, ``passphrase`` by default, with
PREVIEW_PASSPHRASE. The access token of Pulumi Cloud is removed from the environment of previews.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.change.edits import without_digests
from gpu_cluster.cluster import SETTINGS
from gpu_cluster.commands.environment import variables
from gpu_cluster.commands.packs import RECORDER, place_pack
from gpu_cluster.commands.placeholders import blinded, is_complete, placeholder
from gpu_cluster.commands.project import ROOT
from gpu_cluster.commands.stack import Stack
from gpu_cluster.ssh.key_files import KEY_FILE
from gpu_rules.faults import Fault, FaultError
from gpu_rules.printable import printable_lines

LIMIT = 300
"""Time limit of one command of the engine, in seconds."""
BACKEND, PROVIDER = "PREVIEW_BACKEND_URL", "PREVIEW_SECRETS_PROVIDER"
PHRASE = "PREVIEW_PASSPHRASE"
PROVIDER_KEYS = ("encryptionsalt", "secretsprovider", "encryptedkey")
OPENED = "preview:opened"
"""Key of a meaningless value in the stack file of previews.

Encrypting it makes the engine write its secrets provider into the file.
"""
ROUNDS = 5
"""Maximum number of previews of the copy; a cluster that the stack creates needs three."""

Json = dict[str, Any]


def pulumi(folder: Path, environment: dict[str, str], *arguments: str, text: str = "") -> str:
    """Run a command of the engine and return its standard output.

    Args:
        folder: The working directory.
        environment: All environment variables of the command.
        arguments: The arguments after ``pulumi``.
        text: Standard input.

    Raises:
        FaultError: The command failed. The error does not contain its standard output, which may
            hold secrets.
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
                "the command to succeed",
                "correct what the message names",
            )
        )
    return done.stdout


def preview_environment(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment variables with which previews open the copy of the state.

    Raises:
        FaultError: No backend for previews is set, or it is the backend of deployments.
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
    without_secrets_of_user = {
        name: value for name, value in environment.items() if name not in secret
    }
    without_secrets_of_user["PULUMI_BACKEND_URL"] = url
    if phrase := environment.get(PHRASE):
        without_secrets_of_user["PULUMI_CONFIG_PASSPHRASE"] = phrase
    return without_secrets_of_user


def secrets_of(settings: Json) -> dict[str, str]:
    """Return the stack's secrets by name, from ``pulumi config --show-secrets --json``."""
    return {name: item["value"] for name, item in settings.items() if item["secret"]}


def opened_by(file: Path) -> Json:
    """Return the secrets provider that a stack file names, in the format of a state.

    When the engine imports a state, it encrypts with the provider that the state names (pulumi
    v3.250.0 pkg/cmd/pulumi/stack/stack_import.go). That would be the provider of deployments.
    """
    document = yaml.safe_load(file.read_text())
    if url := document.get("secretsprovider"):
        state = {"url": url, "encryptedkey": document["encryptedkey"]}
        return {"type": "cloud", "state": state}
    return {"type": "passphrase", "state": {"salt": document["encryptionsalt"]}}


def without_secrets(text: str, provider: str) -> tuple[str, list[str]]:
    """Return a stack file without its encrypted values, and the names of the removed secrets.

    Previews don't have the key with which the values were encrypted.

    Args:
        text: The stack file.
        provider: The secrets provider of previews: ``passphrase``, or the URL of a key.
    """
    document = yaml.safe_load(text)
    settings = document["config"]
    names = [
        name
        for name, item in settings.items()
        if isinstance(item, dict) and set(item) == {"secure"}
    ]
    public_document = {key: item for key, item in document.items() if key not in PROVIDER_KEYS}
    public_document["config"] = {name: item for name, item in settings.items() if name not in names}
    if provider != "passphrase":
        public_document["secretsprovider"] = provider
    return yaml.safe_dump(public_document, sort_keys=False), names


@dataclass(frozen=True)
class Copy:
    """The stack in the backend for previews.

    Attributes:
        folder: Folder with the project file and the stack file of previews.
        environment: Environment variables of previews.
    """

    name: str
    folder: Path
    environment: Mapping[str, str]

    @property
    def file(self) -> Path:
        """Return the path of the stack file of previews."""
        return self.folder / f"Pulumi.{self.name}.yaml"

    def make(self, text: str) -> None:
        """Create the stack of previews if it is missing, and write its stack file.

        When the engine creates a stack, it writes the secrets provider into the stack file, but not
        for a stack that already exists. Setting a secret value makes it do so in both cases.

        Args:
            text: The stack file of deployments.
        """
        provider = self.environment.get(PROVIDER, "passphrase")
        shutil.copy(ROOT / "Pulumi.yaml", self.folder)
        select = ("stack", "select", "--create", "--secrets-provider", provider)
        self._pulumi(self.folder, *select)
        public_text, names = without_secrets(text, provider)
        self.file.write_text(public_text)
        for name in (*names, OPENED):
            self._pulumi(self.folder, "config", "set", "--secret", name, text=placeholder(name))

    def write(self, state: Json) -> None:
        """Replace the state of previews by a state without secrets."""
        state["deployment"]["secrets_providers"] = opened_by(self.file)
        for resource in state["deployment"].get("resources") or []:
            outputs = resource.get("outputs") or {}
            if isinstance(recorded := outputs.get(SETTINGS), str):
                # The copy's stack file has placeholders, so digests of secrets would all differ.
                outputs[SETTINGS] = without_digests(recorded)
        self._pulumi(self.folder, "stack", "import", text=json.dumps(state))

    def declared(self) -> dict[str, Json]:
        """Return the inputs that the program declares, by URN, without inspecting hosts or cluster.

        Raises:
            FaultError: The preview failed.
        """
        recorded = self.folder / "inputs"
        recorded.unlink(missing_ok=True)
        key = self.folder / "key"
        key.write_text(placeholder("gpu-cluster:sshPrivateKey"))
        environment = {
            "RECORDED_INPUTS": str(recorded),
            "GPU_CLUSTER_INSPECTION": "off",
            # The program reads the SSH key from this file. The recorded inputs must not hold the
            # real key.
            KEY_FILE: str(key),
        }
        self._pulumi(
            ROOT, "preview", "--config-file", str(self.file),
            "--policy-pack", place_pack(RECORDER), **environment,
        )  # fmt: skip
        lines = map(json.loads, recorded.read_text().splitlines())
        return {line["urn"]: line["inputs"] for line in lines}

    def _pulumi(self, folder: Path, *arguments: str, text: str = "", **more: str) -> None:
        environment = {**self.environment, **more}
        pulumi(folder, environment, *arguments, "--stack", self.name, text=text)


def fill(copy: Copy, state: Json, secrets: Mapping[str, str]) -> None:
    """Write the state with placeholders until the declared values are known or no longer change.

    A declared value that depends on a resource's output is only known once that resource has no
    change, so one preview may not be enough.

    Args:
        copy: The stack of previews.
        state: The state of deployments, with its secrets.
        secrets: The stack's secrets by their configuration key.
    """
    declared: dict[str, Json] = {}
    for _ in range(ROUNDS):
        copy.write(blinded(state, declared, secrets))
        if is_complete(state, declared):
            return
        now_declared = copy.declared()
        if now_declared == declared:
            return
        declared = now_declared


def run(stack: Stack) -> dict[str, str]:
    """Copy the state for previews; return the stack's secrets by their configuration key.

    Raises:
        FaultError: The state could not be copied.
    """
    environment = {**os.environ, **variables(stack)}
    copy_environment, stack_option = preview_environment(environment), ("--stack", stack.name)
    config_text = pulumi(ROOT, environment, "config", "--show-secrets", "--json", *stack_option)
    secrets = secrets_of(json.loads(config_text))
    state = json.loads(
        pulumi(ROOT, environment, "stack", "export", "--show-secrets", *stack_option)
    )
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(stack.name, Path(folder), copy_environment)
        copy.make(stack.file.read_text())
        fill(copy, state, secrets)
    return secrets


def main() -> None:
    """Copy the state of the stack that `STACK` names for previews; exit with 1 if that fails."""
    stack = Stack.current()
    with stack.unsalted():
        secrets = run(stack)
    names = ", ".join(f"{name} as {placeholder(name)!r}" for name in sorted(secrets))
    print(f"preview-state: {len(secrets)} secrets replaced ({names or 'the stack has none'})")
