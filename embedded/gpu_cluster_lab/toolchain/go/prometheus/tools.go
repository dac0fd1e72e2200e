//go:build tools

// Package tools pins the checker of alert rules.
package tools

import _ "github.com/prometheus/prometheus/cmd/promtool"
