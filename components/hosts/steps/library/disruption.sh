# What disrupts a node's pods changes in a rollout only, which has drained the node before it.
#
# GC_DISRUPTS has what is declared, as lines `<step> <words>`; the file `disrupts` what this phase was
# last applied with, or `unfinished`. The rollout alone sets GC_ROLLOUT.

require_rollout() {
    [ -f "$state/disrupts" ] || return 0
    ! keeps_text disrupts "$GC_DISRUPTS
" || return 0
    [ -n "${GC_ROLLOUT-}" ] ||
        fail "found a change of $(echo "$GC_DISRUPTS" | cut -d ' ' -f 1 | paste -s -d ' ' -) outside of a rollout; wanted a drained node; run \`pulumi up\` with the inspection of hosts and cluster on (GPU_CLUSTER_INSPECTION=all)"
    keep_text disrupts "unfinished
"
}

keep_disruption() {
    keep_text disrupts "$GC_DISRUPTS
"
}
