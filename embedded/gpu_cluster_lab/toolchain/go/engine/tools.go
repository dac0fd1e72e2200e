//go:build tools

// Package tools pins the Pulumi engine.
package tools

import _ "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
