"""`make preview-secrets`: puts placeholders for its secrets into this checkout's stack file.

Previews run it: what the stack file holds is encrypted for deployments, whose secrets provider
previews don't have. The placeholders are those of `make preview-state`, so that nothing differs.
"""

from __future__ import annotations

import os
import sys

import yaml

from commands.environment import ROOT, variables
from commands.placeholders import placeholder
from commands.preview_state import PROVIDER, pulumi
from commands.stack import Stack
from config.problem import FaultError

PROVIDER_KEYS = ("encryptionsalt", "secretsprovider", "encryptedkey")


def without_secrets(text: str, provider: str) -> tuple[str, list[str]]:
    """A stack file without what only deployments can decrypt, and the names of its secrets.

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


def main() -> None:
    """Runs the command; exit code 1 where a placeholder could not be set."""
    stack = Stack.current()
    environment = {**os.environ, **variables(stack)}
    provider = environment.get(PROVIDER, "passphrase")
    text, names = without_secrets(stack.file.read_text(), provider)
    stack.file.write_text(text)
    try:
        for name in names:
            setting = ("config", "set", "--secret", name, "--stack", stack.name)
            pulumi(ROOT, environment, *setting, text=placeholder(name))
    except FaultError as error:
        sys.exit(str(error))
    print(f"preview-secrets: {len(names)} placeholders")


if __name__ == "__main__":
    main()
