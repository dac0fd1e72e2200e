//go:build tools

// Package tools pins etcd's client, which the official image of etcd has, too.
package tools

import _ "go.etcd.io/etcd/etcdctl/v3"
