#!/usr/bin/env bash
# Preview the settings of forks' merge requests by the program of this checkout, the base.
#
# Input variables: FORKS, a file with a line "number commit" for each merge request, newest first, and
# GPU_CLUSTER, the program or `make`. A merge request that changes nothing but stack files and
# hardware files is previewed on the embedded cluster; this leaves base-<number>-<commit>.json. Each
# preview starts from the base, on a cluster of its own. At most 5 merge requests are previewed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

: "${FORKS:?found nothing; wanted a file with lines NUMBER COMMIT}"
: "${GPU_CLUSTER:?found nothing; wanted the program}"
most=5
merged=.gitlab/scripts/merged_settings.sh
output=$(mktemp)

program() { # arguments: time limit and verb; the job's own credentials are left out
    timeout "$1" env -u CI_JOB_TOKEN -u CI_REPOSITORY_URL -u CI_REGISTRY_PASSWORD \
        -u CI_DEPENDENCY_PROXY_PASSWORD "$GPU_CLUSTER" "$2"
}

previewed() { # arguments: number and commit
    program 20m up &&
        COMMIT=$2 GITHUB_OUTPUT=$output TAKE=1 bash "$merged" &&
        program 4m start &&
        GPU_CLUSTER_CHANGE="base-$1-$2.json" program 4m preview
}

while read -r number commit <&3; do
    if [[ ! $number =~ ^[1-9][0-9]{0,9}$ || ! $commit =~ ^[0-9a-f]{40}$ ]]; then
        echo "$FORKS: found a line without number and commit" >&2
        exit 1
    fi
    git fetch --quiet origin "refs/merge-requests/$number/head" || continue
    : >"$output"
    COMMIT=$commit GITHUB_OUTPUT=$output bash "$merged"
    grep -qx only=true "$output" || continue
    previewed "$number" "$commit" || echo "merge request $number: the preview failed"
    git restore -- .
    git clean -fdqx -- 'Pulumi.*.yaml' lab/hardware
    program 4m down
    most=$((most - 1))
    if [[ $most == 0 ]]; then
        break
    fi
done 3<"$FORKS"
