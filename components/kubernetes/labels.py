"""Labels that this program writes, one definition for each."""

from __future__ import annotations

LABELS = {"app.kubernetes.io/managed-by": "gpu-cluster"}
"""Label of every object that this program makes."""
