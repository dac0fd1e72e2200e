"""Launcher scripts for the project's own plugins, which run in the virtual environment of a clone.

Several clones of the repository share one cache, so a launcher contains no path of a clone. It uses
the clone in ``GPU_CLUSTER_HOME`` (set by ``gpu-cluster env``), or else the clone around the current
directory; the engine starts plugins in the program's folder.
"""

from __future__ import annotations

from pathlib import Path

# Folder of the project's own Pulumi plugins in a clone.
PLUGINS = Path("embedded") / "gpu_cluster_lab" / "toolchain" / "plugins"

_SCRIPT = """\
#!/bin/sh
# Starts the project's own {name} from GPU_CLUSTER_HOME, else from the clone around this folder.
plugin={plugins}/{name}
home=${{GPU_CLUSTER_HOME:-}}
if [ -z "$home" ]; then
  home=$PWD
  until [ -f "$home/$plugin" ] || [ -z "$home" ]; do
    home=${{home%/*}}
  done
fi
if [ ! -f "$home/$plugin" ] || [ ! -x "$home/venv/bin/python" ]; then
  echo "{name}: found no $plugin with venv/bin/python in '${{home:-$PWD}}' or above it;" \\
    "cure: eval \\"\\$(gpu-cluster env)\\" in the clone that you use" >&2
  exit 1
fi
exec "$home/venv/bin/python" -u "$home/$plugin" "$@"
"""


def script(name: str) -> str:
    """Return the text of the launcher script of a plugin (POSIX sh)."""
    return _SCRIPT.format(name=name, plugins=PLUGINS)
