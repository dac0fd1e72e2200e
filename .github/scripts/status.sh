#!/usr/bin/env bash
# Run `make status` of stack $STACK with credentials that can only read.
#
# Input variables: KUBECONFIG_TEXT, and PROBE_KEY_TEXT, the optional SSH key for the inspection of
# hosts. Without that key only the cluster is inspected. The secrets are only written to files in
# $RUNNER_TEMP that no other user can read. The exit code is that of `make`: 2 if anything is wrong.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

: "${STACK:?found nothing; wanted the name of a stack; cure: STACK=prod}"
: "${RUNNER_TEMP:?found nothing; wanted a directory for secret files}"
: "${KUBECONFIG_TEXT:?found nothing; wanted the secret KUBECONFIG of environment status-$STACK}"

umask 077
printf '%s\n' "$KUBECONFIG_TEXT" >"$RUNNER_TEMP/kubeconfig"
export KUBECONFIG=$RUNNER_TEMP/kubeconfig
if [[ -n ${PROBE_KEY_TEXT:-} ]]; then
    printf '%s\n' "$PROBE_KEY_TEXT" >"$RUNNER_TEMP/probe_key"
    export GPU_CLUSTER_PROBE_KEY_FILE=$RUNNER_TEMP/probe_key
else
    export GPU_CLUSTER_INSPECTION=cluster
fi
unset KUBECONFIG_TEXT PROBE_KEY_TEXT

JSON=1 make --silent status >status.json
