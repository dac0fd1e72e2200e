// Package fieldpath gives the Kubernetes plugin, which imports version 4, the types of version 6.
//
// The client libraries of Kubernetes 1.36 have version 6 alone, and the plugin passes its sets of
// fields to them.
package fieldpath

import v6 "sigs.k8s.io/structured-merge-diff/v6/fieldpath"

// Set is a set of paths.
type Set = v6.Set

// Path is the way to a field.
type Path = v6.Path

// MakePath builds a path out of its parts.
var MakePath = v6.MakePath
