# Runs kube-vip as a static pod on a control-plane host. One host of them holds the endpoint's
# address; when it ends, another one takes the address. Sources: kube-vip's documentation, "Static
# Pods"; kube-vip v1.2.2 pkg/cluster/clusterLeaderElection.go (at its end it removes the address).

vip_manifest=/etc/kubernetes/manifests/kube-vip.yaml
: "${GC_KUBE_VIP:=}"

check_kube_vip() {
    [ -z "$GC_KUBE_VIP" ] || have ip ||
        problem "no command ip on PATH" "ip, which removes the address of kube-vip" "install the package iproute2 (Debian) or iproute (RHEL)"
}

# Recorded before this host becomes a member, so that it is removed after the host has left etcd: until
# then kubectl reaches the cluster at that address. A host that has the address from a cluster that is
# gone would connect to itself.
declare_kube_vip() {
    [ -n "$GC_KUBE_VIP" ] || return 0
    effect kube_vip "$GC_KUBE_VIP_ADDRESS"
    [ -f "$state/complete" ] || drop_address "$GC_KUBE_VIP_ADDRESS"
}

# begin_kube_vip: starts kube-vip for `kubeadm init`, until whose end admin.conf may do nothing in the
# cluster (kubernetes v1.34 cmd/kubeadm/app/phases/kubeconfig/kubeconfig.go,
# EnsureAdminClusterRoleBinding).
begin_kube_vip() {
    [ -n "$GC_KUBE_VIP" ] || return 0
    drop_address "$GC_KUBE_VIP_ADDRESS"
    write_kube_vip /etc/kubernetes/super-admin.conf
}

# run_kube_vip: makes a member run kube-vip as declared.
run_kube_vip() {
    [ -n "$GC_KUBE_VIP" ] || return 0
    write_kube_vip "$admin"
    expect kube_vip "$applied"
    [ "$wrote" = true ] || return 0
    again 60 5 is_kube_vip_ready ||
        fail "found no kube-vip that is ready five minutes after its manifest was written ($(log_end)); wanted that pod; run \`gpu-cluster up\` again when crictl logs shows no error of kube-vip"
    did "ran kube-vip with the address $GC_KUBE_VIP_ADDRESS"
}

# write_kube_vip KUBECONFIG: writes the manifest if it is another one; sets $applied and $wrote. After a
# renewal of certificates the file has another form.
write_kube_vip() {
    applied=$(printf '%s\n' "$1 $GC_KUBE_VIP" | sha256sum)
    applied=${applied%% *} wrote=false
    ! found_kube_vip "$applied" || return 0
    wrote=true
    printf '%s\n' "$GC_KUBE_VIP" | sed -e "s|@KUBECONFIG@|$1|" -e "s|@APPLIED@|$applied|" >"$scratch/manifest" &&
        mkdir -p "$root/etc/kubernetes" && (umask 077 && mkdir -p "$root${vip_manifest%/*}") ||
        rm -f -- "$scratch/manifest"
    # It fails without that file.
    put_static_pod kube-vip
}

is_kube_vip_ready() {
    kubectl_within 20 -n kube-system get pod "kube-vip-$GC_NODE" \
        -o 'jsonpath={.metadata.annotations.gpu-cluster/applied} {.status.conditions[?(@.type=="Ready")].status}' &&
        grep -qFx "$applied True" "$scratch/log"
}

# undo_kube_vip ADDRESS: a kube-vip that was killed leaves the address on the host.
undo_kube_vip() {
    rm -f -- "$root$vip_manifest"
    again 30 2 has_no_kube_vip || fail "found kube-vip still running a minute after its manifest was removed; wanted its end; run \`gpu-cluster up\` again when crictl ps shows no kube-vip"
    drop_address "$1"
    undid "ran kube-vip with the address $1"
}

has_no_kube_vip() {
    ! pidof kube-vip >/dev/null 2>&1
}

drop_address() {
    have ip || return 0
    ip -o address show to "$1" >"$scratch/addresses" 2>/dev/null || return 0
    while read -r _ its_device _ its_address _; do
        bounded 20 ip address delete "$its_address" dev "$its_device" ||
            fail "found the address $its_address on $its_device, which can't be removed ($(log_end)); wanted it on no host without kube-vip; run \`gpu-cluster up\` again when ip address delete $its_address dev $its_device has removed it"
    done <"$scratch/addresses"
}

# --- found later: the probe has this part too ---

found_kube_vip() {
    # shellcheck disable=SC2034 # the probe prints this variable
    drifted="kube-vip's manifest"
    grep -Fq "$1" "$root/etc/kubernetes/manifests/kube-vip.yaml" 2>/dev/null
}
