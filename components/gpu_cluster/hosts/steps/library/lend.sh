# Prints what a host needs to join the control plane: a line with a token that expires soon and the
# hashes of the cluster's authority, and a line with the key of the certificates. kubeadm keeps the
# certificates, encrypted with that key, in a Secret (kubernetes v1.34
# cmd/kubeadm/app/phases/copycerts/copycerts.go). Token and key are passed in a file, never as
# arguments. First it takes members out of etcd that are not declared, or that never got a vote, or
# that have the joining host's name: their data is gone or will be.
#
# Without GC_JOINING it only deletes the Secret and the token. State: lent (public part of the token).

main() {
    lock
    [ -f "$state/complete" ] || fail "found no cluster that this stack has made here; wanted one; run \`gpu-cluster up\` again"
    withdraw
    [ -n "${GC_JOINING-}" ] || return 0
    again 6 3 find_etcd "$GC_JOINING" ||
        fail "found no member of etcd that answers ($(log_end)); wanted one, before another member joins; run \`gpu-cluster up\` again when a control plane answers"
    take_snapshot >&2
    each_member take_out >&2
    # kubeadm join refuses the name of a node that is ready, as one is for a while after its end
    # (cmd/phases/join/kubelet.go, runKubeletStartJoinPhase).
    kubectl_within 20 delete node "$GC_JOINING" --ignore-not-found || fail_kubeadm "node $GC_JOINING can't be deleted: $(log_end)"
    random_token
    key=$(od -An -v -t x1 -N 32 /dev/urandom | tr -d ' \n')
    printf '%s\n' "${token%%.*}" >"$state/lent" || fail_file "can't write $state/lent"
    sed -e "s/@TOKEN@/$token/" -e "s/@KEY@/$key/" >"$scratch/lent.yaml" <<EOF || fail_file "can't write $scratch/lent.yaml"
$GC_TOKEN
EOF
    kubeadm_within 60 token create --config "$scratch/lent.yaml" --kubeconfig "$root$admin" \
        --print-join-command || fail_kubeadm "kubeadm token create failed: $(kubeadm_said)"
    hashes=$(grep -o 'sha256:[0-9a-f]\{64\}' "$scratch/log" | head -n 4 | paste -s -d ' ' -)
    [ -n "$hashes" ] || fail "found no CA certificate hash in the output of kubeadm token create; wanted the hash; run \`kubeadm token create --print-join-command\` on this host and correct what it reports"
    kubeadm_within 60 init phase upload-certs --upload-certs --config "$scratch/lent.yaml" \
        --kubeconfig "$root$admin" || fail_kubeadm "kubeadm upload-certs failed: $(kubeadm_said)"
    printf '%s %s\n%s\n' "$token" "$hashes" "$key"
}

# Deletes the Secret with the certificates, the token that would delete it after two hours
# (getSecretOwnerRef), and the token of the join.
withdraw() {
    [ -f "$state/lent" ] || return 0
    kubectl_within 20 -n kube-system get secret kubeadm-certs --ignore-not-found \
        -o 'jsonpath={.metadata.ownerReferences[0].name}' || fail_kubeadm "the Secret kubeadm-certs can't be read: $(log_end)"
    read -r owner <"$scratch/log" || :
    read -r its_token <"$state/lent" || :
    kubectl_within 20 -n kube-system delete secret --ignore-not-found kubeadm-certs \
        "bootstrap-token-$its_token" ${owner:+"$owner"} || fail_kubeadm "the Secret kubeadm-certs can't be deleted: $(log_end)"
    rm -f -- "$state/lent"
}

take_out() {
    case " $GC_MEMBERS " in
        *" $2 "*) [ "$2" = "$GC_JOINING" ] || [ "$3" = true ] || return 0 ;;
    esac
    remove_member "$1" ||
        fail_act "found etcd refusing to lose its member ${2:-that never started} ($(log_end)); wanted a majority of members that run without it; start the control planes that are down"
    undid "member ${2:-that never started} of etcd"
    [ -z "$2" ] || [ "$2" = "$GC_JOINING" ] || kubectl_within 20 delete node "$2" --ignore-not-found ||
        note "the node object $2 stays: $(log_end)"
}
