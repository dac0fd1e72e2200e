#!/bin/sh
# Runs one operation with the Python of the project's virtual environment: the state then holds
# no path of the machine that ran `pulumi up`. Usage: sh operations/run.sh MODULE [ARGUMENT…]
set -eu
module=$1
shift
for python in "${VIRTUAL_ENV:-/nonexistent}/bin/python" venv/bin/python .venv/bin/python; do
  if [ -x "$python" ]; then exec "$python" -m "operations.$module" "$@"; fi
done
exec python3 -m "operations.$module" "$@"
