# Lists and removes members of the cluster's etcd by etcdctl in a pod of etcd (Kubernetes docs,
# "Operating etcd clusters for Kubernetes"). etcd itself refuses a removal after which the members
# that run would be no majority (etcd v3.6 server/etcdserver/server.go, mayRemoveMember).

etcd_pki=${GC_CERTIFICATES:-/etc/kubernetes/pki}/etcd

# kubectl_within SECONDS ARGUMENT...: runs kubectl as the administrator, without the host's proxy.
kubectl_within() {
    kubectl_limit=$1
    shift
    bounded "$kubectl_limit" env -u http_proxy -u HTTP_PROXY -u https_proxy -u HTTPS_PROXY \
        kubectl --kubeconfig "$root$admin" "$@"
}

etcdctl() {
    kubectl_within 40 -n kube-system exec "$etcd_pod" -- etcdctl --cacert "$etcd_pki/ca.crt" \
        --cert "$etcd_pki/server.crt" --key "$etcd_pki/server.key" "$@"
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
        etcdctl member list || continue
        grep -E '^[0-9a-f]+, (un)?started, ' "$scratch/log" >"$scratch/members" && return 0
    done 4<"$scratch/pods"
    return 1
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
