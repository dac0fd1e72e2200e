#!/usr/bin/env bash
# Print the repository's stacks as JSON, for the matrix of a workflow: the output variable `stacks`.
#
# A stack is a file Pulumi.<name>.yaml. `embedded` says whether the file names the embedded cluster
# of that stack as its context, so that the stack can be brought up without any credential. Names
# that a job must not get, and more than 20 stacks, are left out with a message.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

: "${GITHUB_OUTPUT:?found nothing; wanted a file for lines NAME=value}"

stacks=()
shopt -s nullglob
for file in Pulumi.*.yaml; do
    name=${file#Pulumi.}
    name=${name%.yaml}
    if [[ ! $name =~ ^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$ || ${#stacks[@]} -ge 20 ]]; then
        printf 'left out: %q\n' "$file" >&2
        continue
    fi
    embedded=false
    pattern="^[^#]*\bcontext: *[\"']?gpu-cluster-${name}[\"']?( *[,}].*| *| +#.*)\$"
    if grep -Eq "$pattern" "$file"; then
        embedded=true
    fi
    stacks+=("{\"stack\":\"$name\",\"embedded\":$embedded}")
done
printf 'stacks=[%s]\n' "$(IFS=,; printf '%s' "${stacks[*]-}")" >>"$GITHUB_OUTPUT"
