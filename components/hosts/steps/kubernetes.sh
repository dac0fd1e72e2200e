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
    upgrade_control_plane
    upgrade_node
    # shellcheck disable=SC2086 # a list of words
    install_packages $GC_KUBERNETES_PACKAGES
    # shellcheck disable=SC2086 # a list of words
    [ "$GC_KUBERNETES_HOLD" = false ] || hold_packages $GC_KUBERNETES_HELD
    restart_kubelet
    kubelet_joined || unit_on kubelet later
    kubernetes_join
    ! kubelet_joined || unit_on kubelet
}

# Until kubeadm has written its configuration, kubelet only restarts in a loop (Kubernetes docs,
# "Installing kubeadm"): it is enabled, and neither started nor expected to run.
kubelet_joined() {
    [ -f "$root/var/lib/kubelet/config.yaml" ]
}
