//go:build tools

// Package tools pins NVIDIA's GPU Operator.
package tools

import (
	_ "github.com/NVIDIA/gpu-operator/cmd/gpu-operator"
	_ "github.com/NVIDIA/gpu-operator/validator"
)
