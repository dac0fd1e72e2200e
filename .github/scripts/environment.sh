#!/usr/bin/env bash
# Gives the later steps of a workflow the environment that `make env` prints for stack $STACK.
#
# Reads: BACKEND_URL, PASSPHRASE, KUBECONFIG_TEXT (each may be empty for the embedded cluster), and
# PROBE_KEY_TEXT, by which the inspection logs in to hosts where it is given.
# Writes: lines NAME=value to the file $GITHUB_ENV; secrets only to files in $RUNNER_TEMP that
# nobody else can read. By hand: STACK=dev GITHUB_ENV=/dev/stdout RUNNER_TEMP=. <this script>
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

: "${STACK:?found nothing; wanted the name of a stack; cure: STACK=dev}"
: "${GITHUB_ENV:?found nothing; wanted a file for lines NAME=value}"
: "${RUNNER_TEMP:?found nothing; wanted a directory for secret files}"

secret_file() { # name, text
    (umask 077 && printf '%s\n' "$2" >"$RUNNER_TEMP/$1")
    printf '%s/%s' "$RUNNER_TEMP" "$1"
}

if [[ -n ${BACKEND_URL:-} ]]; then
    export PULUMI_BACKEND_URL=$BACKEND_URL
elif [[ $STACK != dev && ${EMBEDDED:-} != 1 ]]; then
    echo "environment of $STACK: found no PULUMI_BACKEND_URL; wanted the backend that holds its" \
        "state; cure: set the variable in the environment of this job" >&2
    exit 1
fi
if [[ -n ${PASSPHRASE:-} ]]; then
    PULUMI_CONFIG_PASSPHRASE_FILE=$(secret_file passphrase "$PASSPHRASE")
    export PULUMI_CONFIG_PASSPHRASE_FILE
fi
if [[ -n ${KUBECONFIG_TEXT:-} ]]; then
    KUBECONFIG=$(secret_file kubeconfig "$KUBECONFIG_TEXT")
    export KUBECONFIG
fi
if [[ -n ${PROBE_KEY_TEXT:-} ]]; then
    GPU_CLUSTER_PROBE_KEY_FILE=$(secret_file probe_key "$PROBE_KEY_TEXT")
    export GPU_CLUSTER_PROBE_KEY_FILE
fi
unset PASSPHRASE KUBECONFIG_TEXT PROBE_KEY_TEXT

printed=$(make --silent env)
eval "$printed"

# `make env` leaves out what is set already; the later steps need that too.
names=$(sed -n 's/^export \([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p' <<<"$printed")
for name in $names PULUMI_BACKEND_URL PULUMI_CONFIG_PASSPHRASE_FILE KUBECONFIG GPU_CLUSTER_PROBE_KEY_FILE; do
    value=${!name-}
    if [[ -z $value ]]; then
        continue
    fi
    if [[ $value == *$'\n'* ]]; then
        echo "environment of $STACK: found a line break in $name; wanted one line" >&2
        exit 1
    fi
    printf '%s=%s\n' "$name" "$value"
done | sort -u >>"$GITHUB_ENV"
