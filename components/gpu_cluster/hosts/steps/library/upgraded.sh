# Upgrades Kubernetes on a host that is a member of its cluster. Sources: Kubernetes docs,
# "Upgrading kubeadm clusters" and "Upgrading Linux nodes" (kubeadm's package comes first, then
# kubeadm upgrade, then kubelet's package and a restart; an interrupted upgrade is run again);
# kubernetes v1.34 cmd/kubeadm/app/cmd/upgrade/apply.go, node.go.
#
# GC_UPGRADE: `apply` on the first control plane, `member` on the others, `node` on workers. State:
# upgrading (kubeadm was started and has not finished), kubelet-waits (the kubelet needs a restart).

# A limit that is only reached if all of kubeadm's own limits fail (app/constants/constants.go,
# UpgradeManifestsTimeout: five minutes, twice for each of four static pods).
: "${GC_UPGRADE_LIMIT:=3600}"
: "${GC_UPGRADE_NODE_LIMIT:=300}"
upgrade_version=${GC_KUBERNETES_PACKAGES%% *}
upgrade_version=${upgrade_version#*=}
static_pods=/etc/kubernetes/manifests

# Runs before the node is drained, because kubeadm first creates a Job that must run on the node
# (app/phases/upgrade/health.go, createJob).
upgrade_kubernetes() {
    each_repository step_repository
    if upgrades_control_plane; then
        upgrade_control_plane
    else
        # The rollout changes something else of this host.
        take_snapshot
    fi
}

upgrades_control_plane() {
    case ${GC_UPGRADE-} in
        apply | member) control_plane_is_behind ;;
        *) return 1 ;;
    esac
}

upgrade_control_plane() {
    install_packages "kubeadm=$upgrade_version"
    restore_manifests
    await_api_server
    require_etcd
    # An upgrade that goes on has its snapshot, which newer ones must not push out.
    [ -f "$state/upgrading" ] || take_snapshot
    : >"$state/upgrading" || fail_file "can't write $state/upgrading"
    set -- upgrade node
    if [ "$GC_UPGRADE" = apply ]; then
        set -- upgrade apply "v$upgrade_version" --yes
    else
        require_upgraded_cluster
    fi
    kubeadm_within "$GC_UPGRADE_LIMIT" "$@" \
        ${GC_UPGRADE_IGNORED:+"--ignore-preflight-errors=$GC_UPGRADE_IGNORED"} \
        ${GC_UPGRADE_SKIPPED:+"--skip-phases=$GC_UPGRADE_SKIPPED"} || {
        upgrade_said=$(kubeadm_said)
        restore_manifests
        fail_kubeadm "kubeadm $* failed: $upgrade_said"
    }
    rm -f -- "$state/upgrading"
    did "upgraded the control plane${serving:+ from $serving} to $upgrade_version by kubeadm"
}

# kubeadm upgrade node takes the version from the cluster's configuration, which kubeadm upgrade
# apply writes on the first control plane (cmd/upgrade/node.go, newNodeData).
require_upgraded_cluster() {
    kubectl_within 20 -n kube-system get configmap kubeadm-config \
        -o 'jsonpath={.data.ClusterConfiguration}' &&
        grep -qx "kubernetesVersion: v$upgrade_version" "$scratch/log" ||
        fail "found a cluster at $(grep '^kubernetesVersion: ' "$scratch/log" || log_end); wanted v$upgrade_version, by kubeadm upgrade apply on the first control-plane host; run \`gpu-cluster up\` again when that host is ready"
}

# Returns true if the API server's manifest has an older version (app/images/images.go,
# GetKubernetesImage), or if an upgrade was interrupted. A newer version is never downgraded,
# although kubeadm itself allows one minor version back (app/phases/upgrade/policy.go).
control_plane_is_behind() {
    serving=$(sed -n 's|^ *image: .*/kube-apiserver:v||p' "$root$static_pods/kube-apiserver.yaml" 2>/dev/null)
    [ -z "$serving" ] || ! is_older "$upgrade_version" "$serving" || return 1
    [ -f "$state/upgrading" ] || { [ -n "$serving" ] && is_older "$serving" "$upgrade_version"; }
}

is_older() {
    awk -v have="$1" -v want="$2" 'BEGIN {
        split(have, h, "."); split(want, w, ".")
        for (n = 1; n <= 3; n++) if (h[n] + 0 != w[n] + 0) exit !(h[n] + 0 < w[n] + 0)
        exit 1
    }'
}

# Restores static pod manifests: a kubeadm that was killed between its two renames has left a
# manifest only in its backup, and the kubelet stops pods without a manifest
# (app/phases/upgrade/staticpods.go, upgradeComponent).
restore_manifests() {
    [ -f "$state/upgrading" ] || return 0
    for name in etcd kube-apiserver kube-controller-manager kube-scheduler; do
        [ ! -f "$root$static_pods/$name.yaml" ] || continue
        for backup in "$root"/etc/kubernetes/tmp/kubeadm-backup-manifests-*/"$name.yaml"; do
            # The backup folders' names contain the time, so the last folder is the newest.
            [ ! -f "$backup" ] || newest_backup=$backup
        done
        [ -n "${newest_backup-}" ] || continue
        cp -p -- "$newest_backup" "$root/etc/kubernetes/$name.yaml" &&
            mv -- "$root/etc/kubernetes/$name.yaml" "$root$static_pods/$name.yaml" ||
            fail_file "can't restore $static_pods/$name.yaml from $newest_backup"
        newest_backup=
        did "restored $static_pods/$name.yaml, which a kubeadm that was killed had taken away"
    done
}

await_api_server() {
    again 150 2 bounded 20 kubectl --kubeconfig "$root/etc/kubernetes/admin.conf" get --raw /readyz ||
        fail_act "found no ready API server for 5 minutes ($(log_end)); wanted a ready API server before the upgrade; check crictl ps -a and /etc/kubernetes/tmp, where kubeadm keeps the manifests that it replaced"
}

# Updates the kubelet's configuration to the cluster's version, before the kubelet's package is
# installed. On a control plane's host, its upgrade has already done that.
upgrade_node() {
    kubelet_joined || return 0
    list_installed "$scratch/installed"
    set_missing "kubelet=$upgrade_version"
    [ -n "$missing" ] || return 0
    # This one has the new version of the cluster's configuration.
    take_snapshot
    : >"$state/kubelet-waits" || fail_file "can't write $state/kubelet-waits"
    [ "${GC_UPGRADE-}" = node ] || return 0
    install_packages "kubeadm=$upgrade_version"
    [ -d "$root/etc/kubernetes/tmp" ] || record directories /etc/kubernetes/tmp
    kubeadm_within "$GC_UPGRADE_NODE_LIMIT" upgrade node \
        ${GC_UPGRADE_IGNORED:+"--ignore-preflight-errors=$GC_UPGRADE_IGNORED"} ||
        fail_kubeadm "kubeadm upgrade node failed: $(kubeadm_said)"
    did "upgraded kubelet's configuration to $upgrade_version by kubeadm"
}

# Restarts the kubelet, because its package leaves the old process running (kubernetes/release
# 02ab6db, cmd/krel/templates/latest/kubelet/kubelet.spec: %systemd_postun).
restart_kubelet() {
    [ -f "$state/kubelet-waits" ] || return 0
    units=kubelet
    containers_at_risk >/dev/null || bounded 60 systemctl daemon-reload ||
        fail_unit "systemd can't read its units again: $(log_end)"
    bounded 300 systemctl restart kubelet || fail_unit "unit kubelet does not start again: $(log_end)"
    [ -z "${GC_UPGRADE-}" ] || await_kubelet
    rm -f -- "$state/kubelet-waits"
    did "unit kubelet restarted"
}

# Checks the version that the Node reports, because a Node stays Ready for a while after its kubelet
# has ended.
await_kubelet() {
    again 60 2 kubelet_is_new ||
        fail_act "found no kubelet v$upgrade_version on node $GC_NODE two minutes after its restart ($(log_end)); wanted that version; check journalctl -u kubelet"
}

kubelet_is_new() {
    bounded 20 kubectl --kubeconfig "$root/etc/kubernetes/kubelet.conf" get node "$GC_NODE" \
        -o 'jsonpath={.status.nodeInfo.kubeletVersion}' && grep -Fqx "v$upgrade_version" "$scratch/log"
}
