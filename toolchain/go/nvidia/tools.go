//go:build tools

// Package tools pins the NVIDIA runtime configurator.
package tools

import _ "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk"
