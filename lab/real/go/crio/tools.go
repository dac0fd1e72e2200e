//go:build tools

// Package tools pins CRI-O.
package tools

import _ "github.com/cri-o/cri-o/cmd/crio"
