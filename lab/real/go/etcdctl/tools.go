//go:build tools

// Package tools pins etcd's client and its tool for files, which the image of etcd has, too.
package tools

import (
	_ "go.etcd.io/etcd/etcdctl/v3"
	_ "go.etcd.io/etcd/etcdutl/v3"
)
