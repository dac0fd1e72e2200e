# Joins a host to a cluster with kubeadm, and removes it from the cluster. Source: Kubernetes docs,
# "kubeadm join" and "kubeadm reset".

admin=/etc/kubernetes/admin.conf

kubernetes_join() {
    [ -n "$GC_JOIN" ] || return 0
    if [ -f "$root/etc/kubernetes/kubelet.conf" ]; then
        ! recorded joined cluster || effect joined cluster
        return 0
    fi
    # Only root can read the scratch folder, which is in memory and is deleted when this script
    # ends.
    printf '%s' "$GC_JOIN" >"$scratch/join.yaml" || fail_file "can't write $scratch/join.yaml"
    effect joined cluster
    kubeadm_within "$GC_JOIN_LIMIT" join --config "$scratch/join.yaml" || {
        rm -f -- "$scratch/join.yaml"
        fail_kubeadm "kubeadm join failed: $(kubeadm_said)"
    }
    rm -f -- "$scratch/join.yaml"
    did "joined the cluster at $GC_JOIN_ENDPOINT"
}

# Waits for the Node object, because kubeadm may exit before the kubelet has created it (kubernetes
# v1.34 cmd/kubeadm/app/features/features.go, NodeLocalCRISocket) and the next step labels it.
wait_registered() {
    again 60 1 bounded 20 kubectl --kubeconfig "$root/etc/kubernetes/kubelet.conf" get node "$GC_NODE" ||
        fail_act "found no node $GC_NODE a minute after kubelet was started ($(log_end)); wanted the node in the cluster; check journalctl -u kubelet"
}

# Removes a host that these scripts joined from its cluster, with the kubelet's identity and static
# pods.
undo_joined() {
    [ -f "$root/etc/kubernetes/kubelet.conf" ] || return 0
    have kubeadm || fail "found no kubeadm; wanted kubeadm, to remove this host from its cluster; install kubeadm"
    reset_node
    # These folders are left by kubeadm upgrade node.
    rm -rf -- "$root"/etc/kubernetes/tmp/kubeadm-kubelet-config*
    forget_network
    undid "joined the cluster"
    note "the node object stays in the cluster: kubectl delete node $(uname -n)"
}

# In another party's cluster, the network add-on's files belong to that party (init.sh redefines
# this function).
# shellcheck disable=SC2317 # called where nothing replaces it
forget_network() { :; }

# Runs kubeadm reset with the engine's socket, because kubeadm refuses to choose between two.
reset_node() {
    bounded 300 kubeadm reset --force ${GC_CRI_SOCKET:+--cri-socket "$GC_CRI_SOCKET"} ||
        fail_kubeadm "kubeadm reset failed: $(kubeadm_said)"
}

# kubeadm_within SECONDS ARGUMENT...: runs kubeadm without the host's proxy, because it connects to
# the cluster itself.
kubeadm_within() {
    kubeadm_limit=$1
    shift
    bounded "$kubeadm_limit" env -u http_proxy -u HTTP_PROXY -u https_proxy -u HTTPS_PROXY kubeadm "$@"
}

# Prints why kubeadm failed: its last lines are advice (kubernetes v1.34
# cmd/kubeadm/app/preflight/checks.go, RunChecks; cmd/kubeadm/app/util/errors/errors.go), and lines
# of its lists begin with a dash (cmd/kubeadm/app/cmd/phases/upgrade/apply/preflight.go,
# formatErrorMsg).
kubeadm_said() {
    said=$(grep -E '^[[:space:]]*(\[ERROR |error|- )' "$scratch/log" | sed 's/^[[:space:]]*//' | head -n 8 | paste -s -d ' ' -)
    printf '%s' "${said:-$(log_end)}"
}
