//go:build tools

// Package tools pins NVIDIA's DRA driver.
package tools

import (
	_ "sigs.k8s.io/dra-driver-nvidia-gpu/cmd/gpu-kubelet-plugin"
)
