//go:build tools

// Package tools pins containerd 2.0 for the proof of the container runtime.
package tools

import _ "github.com/containerd/containerd/v2/cmd/containerd"
