"""The example of a rule: a manifest that passes, and a manifest that breaks only this rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Example:
    """A passing and a failing manifest as YAML text, and the policy pack's settings for both."""

    passing: str
    failing: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def edited(
        cls, passing: str, *edits: tuple[str, str], settings: Mapping[str, Any] | None = None
    ) -> Example:
        """Return an example whose failing manifest is the passing manifest after `edits`.

        Args:
            passing: The passing manifest.
            edits: Replacements, each as a text of the passing manifest and its new text.
            settings: The policy pack's settings.
        """
        return cls(passing, edited(passing, *edits), settings or {})


def edited(manifest: str, *edits: tuple[str, str]) -> str:
    """Return a manifest after replacements, each given as an old text and a new text.

    Raises:
        ValueError: An old text is not in the manifest exactly once.
    """
    for old, new in edits:
        if manifest.count(old) != 1:
            raise ValueError(f"found {manifest.count(old)} times {old!r} in an example; wanted 1")
        manifest = manifest.replace(old, new)
    return manifest


POD = """\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  containers:
    - name: cuda
      image: registry.example.com/cuda:13.0
      resources:
        requests: {cpu: 4, memory: 32Gi}
        limits: {memory: 32Gi, nvidia.com/gpu: 1}
"""
"""A pod that requests one GPU and violates no rule."""
