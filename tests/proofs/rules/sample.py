"""Share of the full test of the rules that runs: a seeded sample, or everything with FULL=1.

The environment variable `GPU_RULES_SEED` chooses another sample.
"""

from __future__ import annotations

import os
from typing import Final

FULL: Final = os.environ.get("FULL") == "1"
SEED: Final = int(os.environ.get("GPU_RULES_SEED", "1"))
