# A host joins a cluster by kubeadm, and is taken out of it. Source: Kubernetes docs, "kubeadm join"
# and "kubeadm reset".

kubernetes_join() {
    [ -n "$GC_JOIN" ] || return 0
    if [ -f "$root/etc/kubernetes/kubelet.conf" ]; then
        ! recorded joined cluster || effect joined cluster
        return 0
    fi
    # The scratch folder is root's alone, in memory, and goes when this script ends.
    printf '%s' "$GC_JOIN" >"$scratch/join.yaml" || fail "can't write $scratch/join.yaml"
    effect joined cluster
    kubeadm_within "$GC_JOIN_LIMIT" join --config "$scratch/join.yaml" || {
        rm -f -- "$scratch/join.yaml"
        fail "kubeadm join failed: $(kubeadm_said)"
    }
    rm -f -- "$scratch/join.yaml"
    did "joined the cluster at $GC_JOIN_ENDPOINT"
}

# kubeadm ends before kubelet has made its Node (kubernetes v1.34 cmd/kubeadm/app/features/features.go,
# NodeLocalCRISocket): what comes next labels it.
wait_registered() {
    again 60 1 bounded 20 kubectl --kubeconfig "$root/etc/kubernetes/kubelet.conf" get node "$GC_NODE" ||
        fail "found no node $GC_NODE a minute after kubelet was started ($(log_end)); wanted it; look at journalctl -u kubelet"
}

# What joined is taken out again: kubelet's identity and static pods; never a node we did not join.
undo_joined() {
    [ -f "$root/etc/kubernetes/kubelet.conf" ] || return 0
    have kubeadm || fail "found no kubeadm; wanted it to take this host out of its cluster; install it"
    reset_node
    rm -rf -- "$root"/etc/kubernetes/tmp/kubeadm-kubelet-config* # of kubeadm upgrade node
    forget_network
    undid "joined the cluster"
    note "the node object stays in the cluster: kubectl delete node $(uname -n)"
}

# Of a cluster that is somebody else's, the network add-on's files are so too (init.sh has its own).
# shellcheck disable=SC2317 # called where nothing replaces it
forget_network() { :; }

# kubeadm refuses to choose where it finds two engines' sockets.
reset_node() {
    bounded 300 kubeadm reset --force ${GC_CRI_SOCKET:+--cri-socket "$GC_CRI_SOCKET"} ||
        fail "kubeadm reset failed: $(kubeadm_said)"
}

# kubeadm_within SECONDS ARGUMENT...: it asks the cluster itself, so without the host's proxy.
kubeadm_within() {
    kubeadm_limit=$1
    shift
    bounded "$kubeadm_limit" env -u http_proxy -u HTTP_PROXY -u https_proxy -u HTTPS_PROXY kubeadm "$@"
}

# Why kubeadm ended: its last lines are advice (kubernetes v1.34 cmd/kubeadm/app/preflight/checks.go,
# RunChecks; cmd/kubeadm/app/util/errors/errors.go), what it lists has a dash
# (cmd/kubeadm/app/cmd/phases/upgrade/apply/preflight.go, formatErrorMsg).
kubeadm_said() {
    said=$(grep -E '^[[:space:]]*(\[ERROR |error|- )' "$scratch/log" | sed 's/^[[:space:]]*//' | head -n 8 | paste -s -d ' ' -)
    printf '%s' "${said:-$(log_end)}"
}
