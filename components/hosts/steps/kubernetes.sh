# kubelet, kubeadm and kubectl at one version that stays; optionally the host joins its cluster.
# Sources: Kubernetes docs, "Installing kubeadm" (packages held, kubelet enabled), "kubeadm join" and
# its JoinConfiguration (v1beta4 since 1.31): the token goes by a file, never by an argument.

check_kubernetes() {
    require_manager
    have swapoff || problem "no command swapoff on PATH" "swapoff" "install the package util-linux"
}

fetch_kubernetes() {
    each_repository step_repository
    # shellcheck disable=SC2086 # a list of words
    fetch_packages $GC_KUBERNETES_PACKAGES
}

apply_kubernetes() {
    each_repository step_repository
    # shellcheck disable=SC2086 # a list of words
    install_packages $GC_KUBERNETES_PACKAGES
    # shellcheck disable=SC2086 # a list of words
    [ "$GC_KUBERNETES_HOLD" = false ] || hold_packages $GC_KUBERNETES_HELD
    kubelet_joined || unit_on kubelet later
    kubernetes_join
    ! kubelet_joined || unit_on kubelet
}

# Until kubeadm has written its configuration, kubelet only restarts in a loop (Kubernetes docs,
# "Installing kubeadm"): it is enabled, and neither started nor expected to run.
kubelet_joined() {
    [ -f "$root/var/lib/kubelet/config.yaml" ]
}

kubernetes_join() {
    [ -n "$GC_JOIN" ] || return 0
    if [ -f "$root/etc/kubernetes/kubelet.conf" ]; then
        ! recorded joined cluster || effect joined cluster
        return 0
    fi
    # The scratch folder is root's alone, in memory, and goes when this script ends.
    printf '%s' "$GC_JOIN" >"$scratch/join.yaml" || fail "can't write $scratch/join.yaml"
    effect joined cluster
    bounded "$GC_JOIN_LIMIT" kubeadm join --config "$scratch/join.yaml" || {
        rm -f -- "$scratch/join.yaml"
        fail "kubeadm join failed: $(log_end)"
    }
    rm -f -- "$scratch/join.yaml"
    did "joined the cluster at $GC_JOIN_ENDPOINT"
}

# What joined is taken out again: kubelet's identity and static pods; never a node we did not join.
undo_joined() {
    [ -f "$root/etc/kubernetes/kubelet.conf" ] || return 0
    have kubeadm || fail "found no kubeadm; wanted it to take this host out of its cluster; install it"
    bounded 300 kubeadm reset --force || fail "kubeadm reset failed: $(log_end)"
    undid "joined the cluster"
    note "the node object stays in the cluster: kubectl delete node $(uname -n)"
}
