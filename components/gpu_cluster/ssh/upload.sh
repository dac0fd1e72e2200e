# shellcheck shell=sh
# take_files: receives step files on standard input, all of them or none. A line `=== <file>`
# precedes each file, and `=== end` follows the last one. Older files are kept if a phase was
# applied with them, because its undo needs them; all files are kept if a phase has lost its list.
take_files() {
    umask 077
    steps=${GPU_CLUSTER_ROOT-}/var/lib/gpu-cluster/steps
    mkdir -p "$steps/.new" && exec 9<"$steps" && flock -w 60 9 && cd "$steps/.new" || exit
    for file in *; do # Files of an interrupted upload are removed.
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
