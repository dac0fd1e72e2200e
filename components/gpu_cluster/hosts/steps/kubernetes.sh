# Installs kubelet, kubeadm and kubectl at a pinned version; optionally the host joins its cluster.
# Sources: Kubernetes docs, "Installing kubeadm" (packages held, kubelet enabled), "kubeadm join"
# and its JoinConfiguration (v1beta4 since 1.31). The token is passed in a file, never as an
# argument.

check_kubernetes() {
    require_manager
    require_unmasked kubelet
    have swapoff || problem "no command swapoff on PATH" "swapoff" "install the package util-linux"
    case $GC_CRI_SOCKET in *containerd*) ;; *) return 0 ;; esac
    [ -n "$GC_JOIN" ] && [ ! -f "$root/etc/kubernetes/kubelet.conf" ] || return 0
    # The phase that enables CRI for the NVIDIA runtime runs after the join, so it is too late here.
    declared engine || ! cri_is_off ||
        problem "containerd with CRI disabled on a host that joins a cluster" "CRI, which kubelet speaks" \
            "take cri off disabled_plugins in /etc/containerd/config.toml, and restart containerd"
}

fetch_kubernetes() {
    each_repository step_repository
    # shellcheck disable=SC2086 # a list of words, split on purpose
    fetch_packages $GC_KUBERNETES_PACKAGES
}

apply_kubernetes() {
    each_repository step_repository
    ! upgrades_control_plane || upgrade_control_plane
    upgrade_node
    # shellcheck disable=SC2086 # a list of words, split on purpose
    install_packages $GC_KUBERNETES_PACKAGES
    # shellcheck disable=SC2086 # a list of words, split on purpose
    [ "$GC_KUBERNETES_HOLD" = false ] || hold_packages $GC_KUBERNETES_HELD
    restart_kubelet
    kubelet_joined || unit_on kubelet later
    joining=
    [ -f "$root/etc/kubernetes/kubelet.conf" ] || joining=$GC_JOIN
    kubernetes_join
    ! kubelet_joined || unit_on kubelet
    [ -z "$joining" ] || wait_registered
}

# Returns true once kubeadm has written the kubelet's configuration. Until then the kubelet restarts
# in a loop (Kubernetes docs, "Installing kubeadm"), so it is enabled but neither started nor
# expected to run.
kubelet_joined() {
    [ -f "$root/var/lib/kubelet/config.yaml" ]
}
