#!/usr/bin/env bash
# Merge the settings of a pull request into this checkout of its base, as data.
#
# Input variables: COMMIT, the pull request's newest commit, and TAKE. The output variable `only` is
# true if the merge changes nothing but stack files and hardware files; with TAKE=1 the script also
# writes these files. So the base's own program can preview them, and no code of the pull request runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

: "${GITHUB_OUTPUT:?found nothing; wanted a file for lines NAME=value}"
if [[ ! ${COMMIT:-} =~ ^[0-9a-f]{40}$ ]]; then
    echo "COMMIT: found no commit; wanted 40 hexadecimal digits" >&2
    exit 1
fi

own_document() { # argument: reason
    printf '%s: the comment is made of the document of the pull request itself\n' "$1"
    echo "only=false" >>"$GITHUB_OUTPUT"
    exit 0
}

git cat-file -e "$COMMIT^{commit}" 2>/dev/null || git fetch --quiet origin "$COMMIT" ||
    own_document "the commit can't be fetched"
merged=$(git merge-tree --write-tree HEAD "$COMMIT" 2>/dev/null) || own_document "the commit can't be merged"
tree=${merged%%$'\n'*}
settings=()
while IFS= read -r -d '' change && IFS= read -r -d '' path; do
    mode=${change#:* }
    mode=${mode%% *}
    if [[ ! $path =~ ^(Pulumi\.|lab/hardware/)[A-Za-z0-9_-]+\.yaml$ || $mode != @(100644|000000) ]]; then
        own_document "$(printf 'the merge changes %q' "${path:0:200}")"
    fi
    settings+=("$path")
done < <(git diff-tree -r -z --raw --no-renames HEAD "$tree")
if [[ ${#settings[@]} == 0 ]]; then
    own_document "the merge changes no settings"
fi
if [[ ${TAKE:-} == 1 ]]; then
    for path in "${settings[@]}"; do
        git restore --source="$tree" -- "$path"
    done
fi
echo "only=true" >>"$GITHUB_OUTPUT"
