#!/bin/sh
# Runs one program with the Python of the project's virtual environment, so that the Pulumi state
# contains no path of the machine that ran `pulumi up`. Usage: sh components/run.sh NAME [ARGUMENT…]
set -eu
for python in "${VIRTUAL_ENV:-/nonexistent}/bin/python" venv/bin/python .venv/bin/python; do
  if [ -x "$python" ]; then exec "$python" -m components.programs "$@"; fi
done
exec python3 -m components.programs "$@"
