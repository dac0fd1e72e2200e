// Command probe is what runs in the containers of the proof, and first on its nodes.
//
//	probe init   the first process of a node: reaps what its parents left
//	probe pause  waits, as the sandbox of a pod
//	probe look   prints which GPUs it sees, as JSON, and ends
//	probe hold   prints the same and waits
//
// By other names it stands where programs of NVIDIA's would, and says that nothing was computed:
//
//	nvidia-smi -L   one line per GPU that it sees, as the real one prints it
//	sample          the line that a kernel's success would print; no kernel ran
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

type sight struct {
	Listed  string   `json:"listed"` // what NVIDIA_VISIBLE_DEVICES says
	Nodes   []string `json:"nodes"`
	UUIDs   []string `json:"uuids"`
	Names   []string `json:"names"`
	Version string   `json:"version"`
	Problem string   `json:"problem"`
}

// What the program's logs begin with: it keeps a validation from counting as computed.
const simulated = "[simulated: a mock of NVML, no kernel ran]"

func main() {
	switch filepath.Base(os.Args[0]) {
	case "nvidia-smi":
		list()
		return
	case "sample":
		if seen := see(); len(seen.UUIDs) == 0 {
			fmt.Println("no CUDA-capable device is detected (mock NVML)")
			os.Exit(1)
		}
		fmt.Println("Test PASSED")
		return
	}
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: probe init|pause|look|hold")
		os.Exit(2)
	}
	switch os.Args[1] {
	case "init":
		reap()
	case "look", "hold":
		text, _ := json.Marshal(see())
		fmt.Println(string(text))
		_ = os.WriteFile("/dev/termination-log", text, 0o600)
		if os.Args[1] == "look" {
			return
		}
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}

func list() {
	seen := see()
	fmt.Println(simulated)
	if seen.Problem != "" {
		fmt.Println("Failed to initialize NVML: " + seen.Problem)
		os.Exit(9)
	}
	for index, uuid := range seen.UUIDs {
		fmt.Printf("GPU %d: %s (UUID: %s)\n", index, seen.Names[index], uuid)
	}
}

func reap() {
	children := make(chan os.Signal, 16)
	signal.Notify(children, syscall.SIGCHLD)
	for range children {
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

func see() sight {
	seen := sight{Listed: os.Getenv("NVIDIA_VISIBLE_DEVICES"), Nodes: []string{}, UUIDs: []string{}, Names: []string{}}
	found, _ := filepath.Glob("/dev/nvidia[0-9]*")
	seen.Nodes = append(seen.Nodes, found...)
	if ret := nvml.Init(); ret != nvml.SUCCESS {
		seen.Problem = nvml.ErrorString(ret)
		return seen
	}
	seen.Version, _ = nvml.SystemGetNVMLVersion()
	count, _ := nvml.DeviceGetCount()
	for index := range count {
		device, ret := nvml.DeviceGetHandleByIndex(index)
		if ret != nvml.SUCCESS {
			seen.Problem = nvml.ErrorString(ret)
			continue
		}
		uuid, _ := device.GetUUID()
		name, _ := device.GetName()
		seen.UUIDs, seen.Names = append(seen.UUIDs, uuid), append(seen.Names, name)
	}
	return seen
}
