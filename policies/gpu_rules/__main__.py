"""Command `python -m gpu_rules`: the same as `gpu-rules`, without an installation."""

from __future__ import annotations

from .command import run

if __name__ == "__main__":
    run()
