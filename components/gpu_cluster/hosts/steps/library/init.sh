# Creates the control plane of a new cluster with kubeadm init and a declared configuration, or
# joins a host to that cluster. Sources, kubernetes v1.34 cmd/kubeadm/app:
# - preflight/checks.go: init fails if manifests, ports or etcd's folder are in use, so an init that
#   was killed is reset before the next one.
# - cmd/phases/reset/cleanupnode.go, removeetcdmember.go: reset empties /etc/kubernetes/manifests,
#   /etc/kubernetes/pki, /var/lib/kubelet and /var/lib/etcd. It leaves the folders, the network
#   add-on's files, and iptables rules.
#
# Further control planes join by library/member.sh.
# State: token (for new nodes), configuration (the input of init), complete, cni (files of network
# add-ons before).

lent=$root/run/gpu-cluster-lent/join.yaml

apply() {
    require_root
    require_commands awk cat chmod cmp cp cut grep mkdir mv od paste rm rmdir sed sha256sum sort \
        systemctl tail timeout uname
    have kubeadm || problem "no command kubeadm on PATH" "kubeadm" "install the package kubeadm"
    [ "$GC_MEMBER" = join ] || {
        check_control_plane
        check_kube_vip
    }
    refuse_problems
    open_state
    name_step
    [ "$step" = join ] || declare_kube_vip
    if [ "$step" = join ]; then
        remember_folders
        kubernetes_join
    elif makes_cluster; then
        initialize
    else
        join_control_plane
    fi
    settle
    unit_on kubelet
    wait_registered
    [ "$step" = join ] || {
        run_kube_vip
        renew_certificates
    }
    # The probe recognizes an applied phase by this file.
    : >>"$state/written" || fail_file "can't write $state/written"
}

undo() {
    require_root
    refuse_problems
    name_step
    take_back_step "$step"
}

# The first control plane of the list may become another one, so all of them have one step.
name_step() {
    step=$GC_MEMBER
    [ "$step" != init ] || step=member
}

# Returns true on the host that made the cluster, and on the first one of a new cluster. A host that
# takes the place of a lost one gets what it joins with (hosts/kubeadm/lending.py).
makes_cluster() {
    ! recorded member cluster && [ ! -f "$lent" ] || return 1
    recorded initialized cluster || [ "$GC_MEMBER" = init ]
}

# Refuses a host that is in another cluster, because a reset would empty all of these folders.
check_control_plane() {
    [ ! -f "$state/token" ] && [ ! -f "$state/begun" ] || return 0
    for found in "$root$admin" "$root/etc/kubernetes/kubelet.conf" "$root"/etc/kubernetes/manifests/* \
        "$root"/var/lib/etcd/*; do
        [ ! -e "$found" ] || problem "${found#"$root"}, of a cluster that this stack didn't make" \
            "a host that is in no cluster" \
            "declare kubernetesPackages.join for a cluster that is there, or take this host out of it"
    done
    [ "$GC_MEMBER" != init ] || [ -f "$lent" ] || ! endpoint_answers ||
        problem "a cluster that answers at $GC_JOIN_ENDPOINT already" "no cluster at the endpoint of a new one" \
            "bring back a host of that cluster, or declare another endpoint"
}

# Returns true if an API server answers, whatever it lets a stranger read: another host made it, and
# nodes and certificates would belong to one of two clusters by chance. Without a token kubectl asks
# for a user name (kubernetes v1.36 staging/src/k8s.io/client-go/tools/clientcmd/client_config.go,
# getUserIdentificationPartialConfig).
endpoint_answers() {
    have kubectl || return 1
    bounded 15 env -u https_proxy -u HTTPS_PROXY kubectl --kubeconfig /dev/null --token none \
        --server "https://$GC_JOIN_ENDPOINT" --insecure-skip-tls-verify --request-timeout 10s \
        get --raw /version
    grep -Eq 'gitVersion|Unauthorized|Forbidden' "$scratch/log"
}

initialize() {
    if [ -f "$state/complete" ]; then
        same_configuration || fail "found a cluster that was made with another configuration; wanted the declared configuration; undo the change of kubernetesPackages.init, and change the running cluster as \"Reconfiguring a kubeadm cluster\" says (Kubernetes documentation)"
        effect initialized cluster
        return 0
    fi
    [ ! -f "$state/token" ] || {
        note "an init that did not end is undone first"
        reset_node
    }
    remember_folders
    new_token
    effect initialized cluster
    sed "s/@TOKEN@/$token/" >"$scratch/init.yaml" <<EOF || fail_file "can't write $scratch/init.yaml"
$GC_INIT
EOF
    bounded 60 kubeadm config validate --config "$scratch/init.yaml" ||
        fail "kubeadm refuses the configuration: $(kubeadm_said); correct kubernetesPackages.init in the stack file"
    begin_kube_vip
    kubeadm_within "$GC_MEMBER_LIMIT" init --config "$scratch/init.yaml" ||
        fail_kubeadm "kubeadm init failed: $(kubeadm_said)"
    without_version >"$state/draft" && mv -- "$state/draft" "$state/configuration" &&
        : >"$state/complete" || fail_file "can't write $state/complete"
    did "initialized the cluster at $GC_JOIN_ENDPOINT"
}

# Prints the configuration without the Kubernetes version, because kubeadm upgrade changes the
# version (library/upgraded.sh).
without_version() {
    printf '%s\n' "$GC_INIT" | grep -v '^ "kubernetesVersion": '
}

same_configuration() {
    without_version | cmp -s - "$state/configuration"
}

# A token has six and sixteen characters (Kubernetes reference, "Bootstrap tokens").
random_token() {
    token=$(od -An -v -t x1 -N 11 /dev/urandom | tr -d ' \n' | sed 's/^....../&./')
}

new_token() {
    random_token
    (umask 077 && printf '%s\n' "$token" >"$state/draft") && mv -- "$state/draft" "$state/token" ||
        fail_file "can't write $state/token"
}

# Records which folders exist before kubeadm and the engine create them, because nothing else
# removes them (/var/lib/cni: the engine's libcni, containernetworking/cni v1.2.0 libcni/api.go,
# CacheDir; the last four: cmd/kubeadm/app/phases/controlplane/volumes.go), and the files of network
# add-ons that exist before.
remember_folders() {
    plugins=/usr/libexec/kubernetes
    for folder in /etc/kubernetes /etc/kubernetes/manifests /etc/kubernetes/pki /etc/kubernetes/tmp \
        /var/lib/kubelet /var/lib/etcd /etc/cni /etc/cni/net.d /opt/cni /opt/cni/bin \
        /var/lib/cni /var/lib/cni/results \
        "$plugins" "$plugins/kubelet-plugins" "$plugins/kubelet-plugins/volume" \
        "$plugins/kubelet-plugins/volume/exec"; do
        [ -d "$root$folder" ] || record directories "$folder"
    done
    [ -f "$state/cni" ] || {
        cni_files >"$state/draft" && mv -- "$state/draft" "$state/cni" || fail_file "can't write $state/cni"
    }
}

cni_files() {
    for file in "$root"/etc/cni/net.d/* "$root"/opt/cni/bin/*; do
        [ ! -f "$file" ] || printf '%s\n' "${file#"$root"}"
    done
}

undo_initialized() {
    have kubeadm || fail "found no kubeadm; wanted kubeadm, to remove the control plane; install kubeadm"
    # The last member has nobody to leave.
    ! [ -f "$root$admin" ] || ! find_etcd "$GC_NODE" || each_member remove_self
    reset_node
    forget_network
    forget_snapshots
    undid "initialized the cluster"
}

# Removes the files that a network add-on has put on the host, because kubeadm reset leaves them.
forget_network() {
    [ -f "$state/cni" ] || return 0
    cni_files | grep -Fvx -f "$state/cni" >"$scratch/cni"
    while IFS= read -r file; do
        rm -f -- "$root$file" && undid "$file"
    done <"$scratch/cni"
    rm -rf -- "$root/etc/kubernetes/tmp"
}
