"""`make preview-secrets`: puts placeholders for its secrets into this checkout's stack file.

Previews run it: what the stack file holds is encrypted for deployments, whose secrets provider
previews don't have. The placeholders are those of `make preview-state`, so that nothing differs.
"""

from __future__ import annotations

import os
import sys

from commands.environment import ROOT, variables
from commands.placeholders import placeholder
from commands.preview_state import PROVIDER, pulumi, without_secrets
from commands.stack import Stack
from policies.faults import FaultError


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
