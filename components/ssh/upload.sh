# shellcheck shell=sh
# Takes files of the steps from standard input, whole or not at all: a line `=== <file>` before each,
# `=== end` after the last one. Of what was copied before stays what a phase was applied with, for its
# undo; all of it, where a phase has lost the list.
take_files() {
    umask 077
    steps=${GPU_CLUSTER_ROOT-}/var/lib/gpu-cluster/steps
    mkdir -p "$steps/.new" && exec 9<"$steps" && flock -w 60 9 && cd "$steps/.new" || exit
    for file in *; do # of a copy that was cut off
        [ ! -e "$file" ] || rm -f -- "$file"
    done
    awk '/^=== [a-z0-9_]+-[0-9a-f]+[.]sh$/ { file = $2; next } /^=== end$/ { whole = 1; exit }
        { print > file } END { exit !whole }' || { rm -f -- "$steps/.new"/*; exit 1; }
    lost=
    for phase in "${steps%/*}"/*/; do
        case $phase in */steps/ | */replaced/) ;; *) [ -r "$phase/steps" ] || lost=$phase ;; esac
    done
    for file in "$steps"/*.sh; do
        name=${file##*/}
        [ -n "$lost" ] || [ ! -e "$file" ] || [ -e "$name" ] || grep -qsxF -e "${name%.sh}" "${steps%/*}"/*/steps ||
            rm -f -- "$file"
    done
    mv -f -- "$steps/.new"/* "$steps" && rmdir -- "$steps/.new"
}
