# Lists and removes members of the cluster's etcd, and keeps snapshots, by etcdctl in a pod of etcd
# (Kubernetes docs, "Operating etcd clusters for Kubernetes"). etcd itself refuses a removal after
# which the members that run would be no majority (etcd v3.6 server/etcdserver/server.go,
# mayRemoveMember).

etcd_pki=${GC_CERTIFICATES:-/etc/kubernetes/pki}/etcd
etcd_data=${GC_ETCD_DATA:-/var/lib/etcd}
etcd_manifest=/etc/kubernetes/manifests/etcd.yaml
snapshots=/var/lib/gpu-cluster/snapshots
: "${GC_SNAPSHOTS:=3}"
: "${GC_ETCD_TRIES:=24}" # every five seconds, until etcd is well

# kubectl_within SECONDS ARGUMENT...: runs kubectl as the administrator, without the host's proxy.
kubectl_within() {
    kubectl_limit=$1
    shift
    bounded "$kubectl_limit" env -u http_proxy -u HTTP_PROXY -u https_proxy -u HTTPS_PROXY \
        kubectl --kubeconfig "$root$admin" "$@"
}

etcdctl() {
    kubectl_within "${etcdctl_limit:-40}" -n kube-system exec "$etcd_pod" -- etcdctl \
        --cacert "$etcd_pki/ca.crt" --cert "$etcd_pki/server.crt" --key "$etcd_pki/server.key" "$@"
}

# Removes a member. etcd refuses that for five seconds after a member has started (server.go,
# isConnectedFullySince), and for a moment while it elects a leader.
remove_member() {
    again 6 3 is_removed "$1"
}

is_removed() {
    etcdctl member remove "$1" || grep -qi 'member not found' "$scratch/log"
}

# find_etcd NODE: sets $etcd_pod to a pod of etcd that answers and is not on NODE, and writes the
# lines of its members to $scratch/members.
find_etcd() {
    kubectl_within 20 -n kube-system get pods -l component=etcd,tier=control-plane \
        -o 'jsonpath={range .items[*]}{.spec.nodeName}{" "}{.metadata.name}{"\n"}{end}' || return 1
    cp -- "$scratch/log" "$scratch/pods" || fail_file "can't write $scratch/pods"
    while read -r its_node etcd_pod <&4; do
        [ "$its_node" != "$1" ] || continue
        list_members && return 0
    done 4<"$scratch/pods"
    return 1
}

list_members() {
    etcdctl member list || return 1
    grep -E '^[0-9a-f]+, (un)?started, ' "$scratch/log" >"$scratch/members"
}

# each_member FUNCTION: calls it with ID, name and `true` for a member that has no vote yet. A member
# that never started has no name. Source: etcd v3.6 etcdctl/ctlv3/command/printer.go,
# makeMemberListTable.
each_member() {
    while IFS=', ' read -r its_id its_status its_name _ _ its_learner <&4; do
        [ "$its_status" = started ] || its_learner=true
        "$1" "$its_id" "$its_name" "$its_learner"
    done 4<"$scratch/members"
}

# has_etcd: returns true if a member of etcd runs in a static pod on this host.
has_etcd() {
    [ -f "$root$etcd_manifest" ] && etcd_pod=etcd-$GC_NODE
}

# Fails unless all members of etcd have a vote, answer, and have no alarm: after an alarm about space
# or damaged data etcd takes no writes (etcd v3.6 etcdctl/ctlv3/command/ep_command.go,
# epHealthCommandFunc: health includes the alarms).
require_etcd() {
    has_etcd || return 0
    again "$GC_ETCD_TRIES" 5 is_etcd_healthy ||
        fail "found members of etcd that are not healthy: ${ill:-$(log_end)}; wanted each of them started, with a vote and without an alarm, before the control plane is changed; run \`gpu-cluster up\` again when etcdctl endpoint health --cluster reports no error"
}

is_etcd_healthy() {
    ill=
    list_members || return 1
    each_member has_vote
    [ -z "$ill" ] && etcdctl endpoint health --cluster
}

has_vote() {
    [ "$3" != true ] || ill="$ill ${2:-a member that never started} has no vote;"
}

# Writes a snapshot of etcd, and deletes the oldest ones. The pod writes into etcd's folder, because
# its image has no shell; etcdctl compares the digest of what it got.
take_snapshot() {
    has_etcd || return 0
    snapshot=$root$etcd_data/gpu-cluster.snapshot
    (umask 077 && mkdir -p "$root$snapshots") || fail_file "can't make $snapshots"
    rm -f -- "$snapshot" "$snapshot.part"
    has_space_for_snapshot || fail "found too little space for a snapshot of etcd at $etcd_data or $snapshots; wanted $needed KiB, before the control plane is changed; run \`gpu-cluster up\` again when that space is free"
    # The library's limit is for short answers.
    etcdctl_limit=180
    etcdctl snapshot save "$etcd_data/gpu-cluster.snapshot" || {
        rm -f -- "$snapshot" "$snapshot.part"
        fail "found no snapshot of etcd ($(log_end)); wanted one, before the control plane is changed; run \`gpu-cluster up\` again when etcd answers on this host"
    }
    etcdctl_limit=
    named=$snapshots/$(date -u +%Y%m%dT%H%M%SZ).db
    mv -- "$snapshot" "$root$named.part" && chmod 600 "$root$named.part" &&
        mv -- "$root$named.part" "$root$named" || fail_file "can't write $named"
    did "kept a snapshot of etcd in $named"
    rm -f -- "$root$snapshots"/*.part
    # The names contain the time, so the first one is the oldest.
    set -- "$root$snapshots"/*.db
    while [ $# -gt "$GC_SNAPSHOTS" ]; do
        rm -f -- "$1"
        shift
    done
}

# A snapshot is as large as etcd's file, and a full disk stops etcd itself. Twice that size, in KiB.
has_space_for_snapshot() {
    needed=$(stat -c %s "$root$etcd_data/member/snap/db" 2>/dev/null) || needed=0
    needed=$((needed / 512 + 65536))
    for folder in "$etcd_data" "$snapshots"; do
        free=$(df -Pk "$root$folder" | awk 'NR == 2 { print $4 }')
        [ "${free:-0}" -ge "$needed" ] || return 1
    done
}

forget_snapshots() {
    rm -rf -- "$root$snapshots"
}
