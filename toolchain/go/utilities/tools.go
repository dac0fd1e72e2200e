//go:build tools

// Package tools pins the NVIDIA runtime configurator and the workflow linter.
package tools

import (
	_ "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk"
	_ "github.com/rhysd/actionlint/cmd/actionlint"
)
