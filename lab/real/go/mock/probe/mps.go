package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// told is the file in the daemon's folder that keeps what it is told, and its folder for logs.
func told() (string, string) {
	return filepath.Join(os.Getenv("CUDA_MPS_PIPE_DIRECTORY"), "told"), os.Getenv("CUDA_MPS_LOG_DIRECTORY")
}

func isFile(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// control stands where NVIDIA's closed program does: it keeps lines, and there is a daemon as long as
// they are there. It fails without one, by which the device plugin knows (k8s-device-plugin v0.19.3,
// cmd/mps-control-daemon/mps/daemon.go, AssertHealthy).
func control(start bool) {
	path, logs := told()
	if start {
		must(os.WriteFile(path, fmt.Appendf(nil, "-d %s %s\n", filepath.Dir(path), logs), 0o644))
		must(os.WriteFile(filepath.Join(logs, "control.log"), []byte(simulated+"\n"), 0o644))
		return
	}
	text, err := io.ReadAll(os.Stdin)
	must(err)
	if !isFile(path) {
		fmt.Println("Cannot find MPS control daemon process")
		os.Exit(1)
	}
	command := strings.TrimSpace(string(text))
	if command == "quit" {
		must(os.Remove(path))
		return
	}
	if strings.HasPrefix(command, "get_") {
		fmt.Println("100.0")
		return
	}
	kept, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must(err)
	_, err = fmt.Fprintln(kept, command)
	must(err)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}
