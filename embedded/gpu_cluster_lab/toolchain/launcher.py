"""Launcher scripts for the project's own plugins, which run in the environment of a program.

Several environments share one cache, so a launcher contains no path of an environment. It uses the
Python in ``GPU_CLUSTER_PYTHON`` (set by ``gpu-cluster env``), or else the environment around the
current directory; the engine starts plugins in the program's folder.
"""

from __future__ import annotations

_SCRIPT = """\
#!/bin/sh
# Starts the project's own {name} with GPU_CLUSTER_PYTHON, else with the environment around here.
python=${{GPU_CLUSTER_PYTHON:-}}
home=$PWD
while [ -z "$python" ] && [ -n "$home" ]; do
  for folder in venv .venv; do
    found=$home/$folder/bin/python
    if [ -z "$python" ] && [ -x "$found" ]; then python=$found; fi
  done
  home=${{home%/*}}
done
if [ ! -x "$python" ]; then
  echo "{name}: found no venv/bin/python in '$PWD' or above it;" \\
    "cure: eval \\"\\$(gpu-cluster env)\\"" >&2
  exit 1
fi
exec "$python" -P -u -m gpu_cluster_lab.toolchain.plugins {name} "$@"
"""


def script(name: str) -> str:
    """Return the text of the launcher script of a plugin (POSIX sh)."""
    return _SCRIPT.format(name=name)
