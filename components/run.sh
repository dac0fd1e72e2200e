#!/bin/sh
# Runs one program with the Python of the project's virtual environment, so that the Pulumi state
# contains no path of the machine that ran `pulumi up`. Usage: sh components/run.sh NAME [ARGUMENT…]
set -eu
# A program in another language has a folder of its own; the modules are in this folder.
CDPATH='' cd -- "$(dirname -- "$0")/.."
export PYTHONPATH="components:policies${PYTHONPATH:+:$PYTHONPATH}"
for python in venv/bin/python .venv/bin/python "${VIRTUAL_ENV:-/nonexistent}/bin/python"; do
  if [ -x "$python" ]; then exec "$python" -m gpu_cluster.programs "$@"; fi
done
exec python3 -m gpu_cluster.programs "$@"
