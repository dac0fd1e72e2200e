package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// The network add-on of a site, on each of its nodes: it puts the plugins of /plugins and their
// configuration where the node's container engine looks for them, and hands connections to the API
// server's service address on, which is all of kube-proxy's work that the site's pods need.
//
//	probe network SERVICE:PORT API-SERVER:PORT ADDRESS...   the node is /node; it gets the addresses
func network(service, server string, addresses []string) error {
	host, _, err := net.SplitHostPort(service)
	if err != nil {
		return err
	}
	for _, address := range append(addresses, host) {
		command := exec.Command("ip", "addr", "replace", address+"/32", "dev", "lo")
		command.SysProcAttr = &syscall.SysProcAttr{Chroot: "/node"}
		command.Path, command.Err, command.Dir = "/usr/sbin/ip", nil, "/"
		if text, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("ip: %w: %s", err, text)
		}
	}
	listener, err := net.Listen("tcp", service)
	if err != nil {
		return err
	}
	// The configuration comes last: by it the engine knows that the network is there.
	for _, one := range []struct {
		name, target string
		mode         os.FileMode
	}{
		{"plugin", "/node/opt/cni/bin/loopback", 0o755},
		{"plugin", "/node/opt/cni/bin/real", 0o755},
		{"configuration", "/node/etc/cni/net.d/10-real.conf", 0o644},
	} {
		if err := place(filepath.Join("/plugins", one.name), one.target, one.mode); err != nil {
			return err
		}
	}
	for {
		near, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer near.Close()
			far, err := net.Dial("tcp", server)
			if err != nil {
				return
			}
			defer far.Close()
			go func() {
				_, _ = io.Copy(far, near)
				_ = far.(*net.TCPConn).CloseWrite()
			}()
			_, _ = io.Copy(near, far)
		}()
	}
}

// place writes a file by a rename, so that nobody reads a part of it.
func place(source, target string, mode os.FileMode) error {
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(target+".new", text, mode); err != nil {
		return err
	}
	if err := os.Chmod(target+".new", mode); err != nil {
		return err
	}
	return os.Rename(target+".new", target)
}
