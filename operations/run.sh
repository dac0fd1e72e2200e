#!/bin/sh
# Runs one operation with the Python of the project's virtual environment: the state then holds
# no path of the machine that ran `pulumi up`. Usage: sh operations/run.sh MODULE [ARGUMENT…]
set -eu
for python in "${VIRTUAL_ENV:-/nonexistent}/bin/python" venv/bin/python .venv/bin/python; do
  if [ -x "$python" ]; then exec "$python" -m "operations.$@"; fi
done
module=$1
shift
exec python3 -m "operations.$module" "$@"
