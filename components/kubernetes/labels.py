"""Labels that this program sets; each label is defined once."""

from __future__ import annotations

LABELS = {"app.kubernetes.io/managed-by": "gpu-cluster"}
"""Label of every object that this program creates."""
