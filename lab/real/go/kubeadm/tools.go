//go:build tools

// Package tools pins kubeadm.
package tools

import _ "k8s.io/kubernetes/cmd/kubeadm"
