# shellcheck shell=sh
# Takes files of the steps from standard input, whole or not at all: a line `=== <file>` before each,
# `=== end` after the last one. Of what was copied before stays what a phase was applied with: its undo
# reads it.
take_files() {
    umask 077
    steps=${GPU_CLUSTER_ROOT-}/var/lib/gpu-cluster/steps
    mkdir -p "$steps/.new" && exec 9<"$steps" && flock -w 60 9 && cd "$steps/.new" || exit
    for file in *; do # of a copy that was cut off
        [ ! -e "$file" ] || rm -f -- "$file"
    done
    awk '/^=== [a-z0-9_]+-[0-9a-f]+[.]sh$/ { file = $2; next } /^=== end$/ { whole = 1; exit }
        { print > file } END { exit !whole }' || { rm -f -- "$steps/.new"/*; exit 1; }
    for file in "$steps"/*.sh; do
        name=${file##*/}
        [ ! -e "$file" ] || [ -e "$name" ] || grep -qsxF -e "${name%.sh}" "${steps%/*}"/*/steps ||
            rm -f -- "$file"
    done
    mv -f -- "$steps/.new"/* "$steps" && rmdir -- "$steps/.new"
}
