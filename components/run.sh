#!/bin/sh
# Runs one program with the Python of the project's virtual environment, so that the Pulumi state
# contains no path of the machine that ran `pulumi up`. Usage: sh components/run.sh NAME [ARGUMENT…]
set -eu
# A program in another language has a folder of its own; the modules are beside this folder.
CDPATH='' cd -- "$(dirname -- "$0")/.."
for python in venv/bin/python .venv/bin/python "${VIRTUAL_ENV:-/nonexistent}/bin/python"; do
  if [ -x "$python" ]; then exec "$python" -m components.programs "$@"; fi
done
exec python3 -m components.programs "$@"
