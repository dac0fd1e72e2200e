"""The plugins' own folder is on the path, as in their processes."""

from __future__ import annotations

import tests.plugins.rig  # noqa: F401 -- puts it there
