//go:build tools

// Package tools pins the kubelet.
package tools

import _ "k8s.io/kubernetes/cmd/kubelet"
