//go:build tools

// Package tools pins kube-vip, which holds the address of a control plane.
package tools

import _ "github.com/kube-vip/kube-vip"
