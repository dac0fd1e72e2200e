#!/usr/bin/env bash
# Pass the environment variables that `make env` prints for stack $STACK to the later steps.
#
# Input variables: BACKEND_URL, PASSPHRASE and KUBECONFIG_TEXT, each of which may be empty for the
# embedded cluster, and PROBE_KEY_TEXT, the optional SSH key for the inspection of hosts. Output:
# lines NAME=value in the file $GITHUB_ENV; secrets are only written to files in $RUNNER_TEMP that
# no other user can read. By hand: STACK=dev GITHUB_ENV=/dev/stdout RUNNER_TEMP=. <this script>
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

: "${STACK:?found nothing; wanted the name of a stack; cure: STACK=dev}"
: "${GITHUB_ENV:?found nothing; wanted a file for lines NAME=value}"
: "${RUNNER_TEMP:?found nothing; wanted a directory for secret files}"

secret_file() { # arguments: name, text
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

# `make env` leaves out variables that are already set, but the later steps need them too.
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
