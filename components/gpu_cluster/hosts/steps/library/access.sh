# Prints access data of a new cluster: on the first line a join token and the hashes of the
# cluster's certificate authority (more than one while it is being replaced), then the
# administrator's kubeconfig. The token is always the same and expires a day from now, so that a new
# node changes nothing for nodes that have joined. The token is passed in a file, never as an
# argument (kubernetes v1.34 cmd/kubeadm/app/cmd/token.go: create takes --config).

# Deletes the token, if it is there, and makes it again, so that it expires a day from now.
renew_token() {
    kubeadm_within 60 token delete "${token%%.*}" --kubeconfig "$root$admin"
    kubeadm_within 60 token create --config "$scratch/token.yaml" --kubeconfig "$root$admin" \
        --print-join-command
}

main() {
    lock
    state=$root/var/lib/gpu-cluster/cluster
    [ -f "$state/complete" ] && [ -f "$root$admin" ] ||
        fail "found no cluster that this stack has created on this host; wanted that cluster; run \`pulumi up\` again"
    # A host that took the place of the one that made the cluster has none.
    [ -f "$state/token" ] || new_token
    read -r token <"$state/token" || fail_file "can't read $state/token"
    sed "s/@TOKEN@/$token/" >"$scratch/token.yaml" <<EOF || fail_file "can't write $scratch/token.yaml"
$GC_TOKEN
EOF
    # A load balancer may begin to pass requests after the first of the two: then the token is there.
    renew_token || renew_token || fail_kubeadm "kubeadm token create failed: $(kubeadm_said)"
    hashes=$(grep -o 'sha256:[0-9a-f]\{64\}' "$scratch/log" | head -n 4 | paste -s -d ' ' -)
    [ -n "$hashes" ] || fail "found no CA certificate hash in the output of kubeadm token create; wanted the hash; run \`kubeadm token create --print-join-command\` on this host and correct what it reports"
    printf '%s %s\n' "$token" "$hashes"
    cat -- "$root$admin"
}
