# Joins a host to the control plane of the stack's cluster, and takes it out again. Sources:
# kubernetes v1.34 cmd/kubeadm/app: cmd/join.go (a member gets the certificates, then its kubelet,
# then etcd), phases/etcd/local.go (a new member of etcd is a learner until it is promoted),
# cmd/phases/reset/removeetcdmember.go (reset only warns if etcd keeps the member).
#
# Token and certificate key come in a file in memory, which another login wrote just before and
# which is deleted when kubeadm ends (hosts/kubeadm/lending.py).
# State: begun (kubeadm was started), complete (kubeadm has ended well).

join_control_plane() {
    effect member cluster
    [ ! -f "$state/complete" ] || return 0
    [ -f "$lent" ] || fail "found no token and no certificate key for the join; wanted them in memory; run \`gpu-cluster up\` again"
    [ ! -f "$state/begun" ] || {
        note "a join that did not end is undone first"
        reset_member
    }
    remember_folders
    : >"$state/begun" || fail_file "can't write $state/begun"
    kubeadm_within "$GC_MEMBER_LIMIT" join --config "$lent" || {
        rm -f -- "$lent"
        fail_kubeadm "kubeadm join failed: $(kubeadm_said)"
    }
    rm -f -- "$lent"
    : >"$state/complete" || fail_file "can't write $state/complete"
    did "joined the control plane at $GC_JOIN_ENDPOINT"
}

undo_member() {
    have kubeadm || fail "found no kubeadm; wanted kubeadm, which takes this host out of its cluster; install kubeadm"
    leave_etcd
    reset_member
    rm -rf -- "$root"/etc/kubernetes/tmp/kubeadm-kubelet-config*
    forget_network
    forget_snapshots
    undid "joined the control plane"
}

# kubeadm reset empties etcd's folder only if etcd's manifest is whole (cmd/phases/reset), and etcd may
# write until its container has ended. The join found the folder empty (preflight, DirAvailable).
reset_member() {
    reset_node
    [ ! -d "$root/var/lib/etcd" ] || find "$root/var/lib/etcd" -mindepth 1 -delete ||
        fail_file "can't empty $root/var/lib/etcd"
}

# kubeadm writes the administrator's kubeconfig before it adds the member to etcd.
leave_etcd() {
    [ -f "$root$admin" ] || return 0
    if again 6 3 find_etcd "$GC_NODE"; then
        each_member remove_self
    elif [ -n "${GC_MAY_LOSE_ETCD-}" ]; then
        note "no other member of etcd answers, so etcd may keep this one: $(log_end)"
    else
        fail_act "found no other member of etcd that answers ($(log_end)); wanted another member, which takes this host out of etcd; start the other control planes, or, if the data of etcd may be lost, declare kubernetesPackages.init.protect: false, and run \`gpu-cluster up\` first"
    fi
}

remove_self() {
    [ "$2" = "$GC_NODE" ] || return 0
    if remove_member "$1"; then
        kubectl_within 20 delete node "$GC_NODE" --ignore-not-found || note "the node object stays: $(log_end)"
        undid "member $GC_NODE of etcd"
    elif [ -n "${GC_MAY_LOSE_ETCD-}" ]; then
        note "etcd keeps its member $GC_NODE: $(log_end)"
    else
        fail_act "found etcd refusing to lose its member $GC_NODE ($(log_end)); wanted a majority of members that run without it; start the other control planes"
    fi
}
