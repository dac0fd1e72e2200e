// Command probe is what runs in the containers of the proof, and first on its nodes.
//
//	probe init   the first process of a node: reaps what its parents left
//	probe pause  waits, as the sandbox of a pod
//	probe look   prints which GPUs it sees, as JSON, and ends
//	probe hold   prints the same and waits
//	probe driver PROGRAM   runs a program with /node/driver as its /proc/driver: containers have a /proc
//	             of their own, without what the kernel's module would show in each
//	probe network …        a site's network add-on (network.go)
//
// By other names it stands where programs of NVIDIA's would, and says that nothing was computed:
//
//	nvidia-smi -L     one line per GPU that it sees, as the real one prints it
//	sample, vectorAdd the line that a kernel's success would print; no kernel ran
//	all_reduce_perf   the figure that the node's state holds; nothing was measured
//	nvidia-cuda-mps-control   keeps what it is told (mps.go); nothing is shared
//
// The node's state holds faults that only a program would meet: "kernel" (none runs on this GPU),
// "silent" (its result isn't printed), "slow" (seconds that it takes), "figure" (what a test measures).
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

type sight struct {
	Listed  string   `json:"listed"` // what NVIDIA_VISIBLE_DEVICES says
	Nodes   []string `json:"nodes"`
	UUIDs   []string `json:"uuids"`
	Migs    []string `json:"migs"`
	Names   []string `json:"names"`
	Version string   `json:"version"`
	Problem string   `json:"problem"`
	Pipe    string   `json:"pipe"` // where an MPS daemon was told to listen
	minors  []int
	lines   []string
}

type fault struct {
	GPU   int    `json:"gpu"`
	Kind  string `json:"kind"`
	Value int    `json:"value"`
}

// What the program's logs begin with: it keeps a validation from counting as computed.
const simulated = "[simulated: a mock of NVML, no kernel ran]"

func main() {
	switch filepath.Base(os.Args[0]) {
	case "nvidia-smi":
		list()
		return
	case "nvidia-cuda-mps-control":
		control(len(os.Args) > 1 && os.Args[1] == "-d")
		return
	case "sample", "vectorAdd":
		compute(1)
		if value("silent", -1) < 0 {
			fmt.Println("Test PASSED")
		}
		fmt.Println("Done")
		return
	case "all_reduce_perf":
		list()
		compute(len(see().UUIDs))
		// As embedded/gpu_cluster_lab/simulator/logs.py: nccl-tests, src/common.cu.
		fmt.Printf("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : %d\n", value("figure", 400))
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "driver" {
		err := syscall.Mount("/node/driver", "/proc/driver", "", syscall.MS_BIND, "")
		if err == nil {
			err = syscall.Exec(os.Args[2], os.Args[2:], os.Environ())
		}
		fmt.Fprintln(os.Stderr, "probe driver:", err)
		os.Exit(1)
	}
	if len(os.Args) > 3 && os.Args[1] == "network" {
		fmt.Fprintln(os.Stderr, "probe network:", network(os.Args[2], os.Args[3], os.Args[4:]))
		os.Exit(1)
	}
	// kubeadm's check CreateJob runs the pause image so (kubernetes v1.36.3, build/pause/linux/pause.c).
	if len(os.Args) == 3 && os.Args[1] == "pause" && os.Args[2] == "-v" {
		fmt.Println("pause.c of the lab")
		return
	}
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: probe init|pause [-v]|look|hold")
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

// compute does what a program on the first of its GPUs, as many as it uses, would meet: CUDA's default
// is the first.
func compute(used int) {
	seen := see()
	if len(seen.minors) == 0 {
		fmt.Println("no CUDA-capable device is detected (mock NVML)")
		os.Exit(1)
	}
	time.Sleep(time.Duration(value("slow", 0)) * time.Second)
	for _, each := range faults() {
		for _, minor := range seen.minors[:used] {
			if each.Kind == "kernel" && each.GPU == minor {
				// As embedded/gpu_cluster_lab/simulator/logs.py: cuda-samples, vectorAdd.cu, and the error's text.
				fmt.Println("Failed to allocate device vector A (error code system not yet initialized)!")
				os.Exit(1)
			}
		}
	}
}

// faults of the node: its state lies among the driver's libraries (state.go of the mock).
func faults() []fault {
	var read struct{ Faults []fault }
	found, _ := filepath.Glob("/usr/lib/*-linux-gnu/libnvidia-mock.so.*")
	for _, path := range found {
		if text, err := os.ReadFile(path); err == nil {
			_ = json.Unmarshal(text, &read)
		}
	}
	return read.Faults
}

func value(kind string, otherwise int) int {
	for _, each := range faults() {
		if each.Kind == kind {
			return each.Value
		}
	}
	return otherwise
}

func list() {
	seen := see()
	fmt.Println(simulated)
	if seen.Problem != "" {
		fmt.Println("Failed to initialize NVML: " + seen.Problem)
		os.Exit(9)
	}
	for _, line := range seen.lines {
		fmt.Println(line)
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
	none := []string{}
	seen := sight{Listed: os.Getenv("NVIDIA_VISIBLE_DEVICES"), Nodes: none, UUIDs: none, Migs: none, Names: none}
	found, _ := filepath.Glob("/dev/nvidia[0-9]*")
	seen.Nodes = append(seen.Nodes, found...)
	if pipe, _ := told(); isFile(pipe) {
		seen.Pipe = filepath.Dir(pipe)
	}
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
		minor, _ := device.GetMinorNumber()
		seen.UUIDs, seen.Names = append(seen.UUIDs, uuid), append(seen.Names, name)
		seen.minors = append(seen.minors, minor)
		seen.lines = append(seen.lines, fmt.Sprintf("GPU %d: %s (UUID: %s)", index, name, uuid))
		seen.addMigs(device)
	}
	return seen
}

// addMigs adds the MIG devices of a GPU, as nvidia-smi lists them.
func (seen *sight) addMigs(device nvml.Device) {
	most, _ := device.GetMaxMigDeviceCount()
	for index := range most {
		part, ret := device.GetMigDeviceHandleByIndex(index)
		if ret != nvml.SUCCESS {
			continue
		}
		uuid, _ := part.GetUUID()
		has, _ := part.GetAttributes()
		profile := fmt.Sprintf("%dg.%dgb", has.GpuInstanceSliceCount, (has.MemorySizeMB+1023)/1024)
		seen.Migs = append(seen.Migs, uuid)
		seen.lines = append(seen.lines, fmt.Sprintf("  MIG %s     Device %2d: (UUID: %s)", profile, index, uuid))
	}
}
