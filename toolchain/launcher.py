"""Launchers of the project's own plugins: ``toolchain/plugins/<name>``, run by a clone's venv.

Several clones share one cache, so a launcher names no clone. It takes the one in
``GPU_CLUSTER_HOME`` (``make env`` sets it), else the one around the current directory, which the
engine sets to the program's folder.
"""

from __future__ import annotations

from pathlib import Path

#: Folder of the project's own plugins in a clone.
PLUGINS = Path("toolchain") / "plugins"

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
    "cure: eval \\"\\$(make env)\\" in the clone that you use" >&2
  exit 1
fi
exec "$home/venv/bin/python" -u "$home/$plugin" "$@"
"""


def script(name: str) -> str:
    """The launcher of one plugin: POSIX sh."""
    return _SCRIPT.format(name=name, plugins=PLUGINS)
