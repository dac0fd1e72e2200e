"""Run `gpu-cluster preview-secrets`: replace the secrets in this checkout's stack file.

CI runs it before a preview. The secrets in the stack file are encrypted for deployments, with a
secrets provider that previews can't use. The placeholders are the same as those of `make
preview-state`, so that the preview shows no difference.
"""

from __future__ import annotations

import os

from gpu_cluster.commands.environment import variables
from gpu_cluster.commands.placeholders import placeholder
from gpu_cluster.commands.preview_state import PROVIDER, pulumi, without_secrets
from gpu_cluster.commands.project import ROOT
from gpu_cluster.commands.stack import Stack


def main() -> None:
    """Put placeholders into the stack file; exit with 1 if a placeholder could not be set."""
    stack = Stack.current()
    environment = {**os.environ, **variables(stack)}
    provider = environment.get(PROVIDER, "passphrase")
    text, names = without_secrets(stack.file.read_text(), provider)
    stack.file.write_text(text)
    for name in names:
        setting = ("config", "set", "--secret", name, "--stack", stack.name)
        pulumi(ROOT, environment, *setting, text=placeholder(name))
    print(f"preview-secrets: {len(names)} placeholders")
