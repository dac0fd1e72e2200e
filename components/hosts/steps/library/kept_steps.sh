# The files of functions that phases were applied with: kept for their undo, gone with the last one.

uploaded=.gpu-cluster-steps

# Before the first change, for the undo of what it begins. Whoever logs in may write what was copied,
# so its sum is seen again in the folder of root's alone.
take_steps() {
    [ -n "${loaded-}" ] || return 0
    (umask 077 && mkdir -p "${state%/*}/steps") || fail "can't make ${state%/*}/steps"
    for file in ${loaded-}; do
        kept_file=${state%/*}/steps/$file.sh
        [ ! -f "$kept_file" ] || [ "$(digest "$kept_file")" != "${file##*-}" ] || continue
        cp -- "./$uploaded/$file.sh" "$state/draft" && [ "$(digest "$state/draft")" = "${file##*-}" ] &&
            mv -- "$state/draft" "$kept_file" || fail "can't keep the step $file"
    done
}

keep_steps() {
    [ -n "${loaded-}" ] || return 0
    # shellcheck disable=SC2086 # a list of words
    printf '%s\n' $loaded >"$scratch/loaded" || fail "can't write $scratch/loaded"
    cmp -s -- "$scratch/loaded" "$state/steps" || {
        cp -- "$scratch/loaded" "$state/draft" && mv -- "$state/draft" "$state/steps"
    } || fail "can't write $state/steps"
    clear_steps
}

# What no phase needs any more.
clear_steps() {
    cat "${state%/*}"/*/steps >"$scratch/steps" 2>/dev/null
    for file in "${state%/*}/steps"/*; do
        name=${file##*/}
        grep -Fqx -e "${name%.sh}" "$scratch/steps" || rm -f -- "$file"
    done
}

drop_steps() {
    clear_steps
    rmdir -- "${state%/*}/steps" 2>/dev/null
    rmdir -- "${state%/*}" 2>/dev/null
    for file in "${state%/*}"/*/steps; do
        [ ! -f "$file" ] || return 0
    done
    rm -rf -- "./$uploaded"
}
