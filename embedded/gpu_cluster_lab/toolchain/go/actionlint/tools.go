//go:build tools

// Package tools pins the workflow linter.
package tools

import _ "github.com/rhysd/actionlint/cmd/actionlint"
