# Settings that disrupt a node's pods change only in a rollout, which drains the node before.
#
# GC_DISRUPTS has the declared settings, as lines `<step> <words>`; the file `disrupts` has the
# settings that this phase was last applied with, or `unfinished`. Only a rollout sets GC_ROLLOUT.

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
