//go:build tools

// Package tools pins containerd 1.7 for the proof of the container runtime.
package tools

import _ "github.com/containerd/containerd/cmd/containerd"
