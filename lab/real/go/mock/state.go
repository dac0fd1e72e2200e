package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxb200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

// Where the state lies. The name is that of a driver's library, so that NVIDIA's container runtime
// mounts it into each container with a GPU, as it does the library itself.
const statePattern = "/usr/lib/*-linux-gnu/libnvidia-mock.so.*"

// More than this is no state of ours.
const stateLimit = 1 << 20

var profiles = map[string]func() *server.Server{
	"dgxa100": dgxa100.New,
	"dgxh100": dgxh100.New,
	"dgxh200": dgxh200.New,
	"dgxb200": dgxb200.New,
}

// A fault of one GPU. Kind is xid (an event with this value), lost (the device answers nothing) or ecc
// (an event that the device plugin passes over, and a count); others are the probe's. Serial grows, so
// that an event comes once.
type fault struct {
	Serial uint64 `json:"serial"`
	GPU    int    `json:"gpu"`
	Kind   string `json:"kind"`
	Value  uint64 `json:"value"`
}

type state struct {
	Node    string  `json:"node"`
	Profile string  `json:"profile"`
	Faults  []fault `json:"faults"`
	// MIG devices of each GPU by their profiles; null: MIG is off there.
	Mig [][]string `json:"mig"`
}

var (
	once    sync.Once
	machine *server.Server
	devices []*server.Device
)

func statePath() string {
	if path := os.Getenv("MOCK_NVML_STATE"); path != "" {
		return path
	}
	if found, _ := filepath.Glob(statePattern); len(found) > 0 {
		return found[0]
	}
	return ""
}

// readState reads the file again: tests change it while programs run. A half-written one is none.
func readState() (state, bool) {
	var read state
	info, err := os.Stat(statePath())
	if err != nil || info.Size() > stateLimit {
		return read, false
	}
	text, err := os.ReadFile(statePath())
	if err != nil || json.Unmarshal(text, &read) != nil {
		return read, false
	}
	return read, true
}

// load makes the profile's server, with what the mocks draw by chance or leave out set for good.
func load() bool {
	once.Do(func() {
		read, ok := readState()
		make, known := profiles[read.Profile]
		if !ok || !known {
			return
		}
		machine = make()
		for index, each := range machine.Devices {
			device := each.(*server.Device)
			device.UUID = uuid(read.Node, index)
			if !strings.HasPrefix(device.Config.Name, "Mock ") { // go-nvml's A100 has it
				device.Config.Name = "Mock " + device.Config.Name
			}
			devices = append(devices, device)
		}
	})
	return machine != nil
}

// uuid begins with "mock" in ASCII: 6d6f636b.
func uuid(node string, index int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", node, index))
	return fmt.Sprintf("GPU-6d6f636b-%x-%x-%x-%x", sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// visible gives the devices whose nodes exist here: in a container those that it was given.
func visible() []*server.Device {
	var found []*server.Device
	for _, device := range devices {
		info, err := os.Stat(fmt.Sprintf("/dev/nvidia%d", device.Minor))
		if err == nil && info.Mode()&os.ModeCharDevice != 0 {
			found = append(found, device)
		}
	}
	return found
}

func isLost(device *server.Device) bool {
	read, _ := readState()
	for _, each := range read.Faults {
		if each.GPU == device.Index && each.Kind == "lost" {
			return true
		}
	}
	return false
}

func eccErrors(device *server.Device) uint64 {
	read, _ := readState()
	count := uint64(0)
	for _, each := range read.Faults {
		if each.GPU == device.Index && each.Kind == "ecc" {
			count++
		}
	}
	return count
}

func busID(device *server.Device) string {
	return fmt.Sprintf("00000000:%02X:00.0", device.Index+1)
}

func pciInfo(device *server.Device) nvml.PciInfo {
	info := nvml.PciInfo{
		Bus:         uint32(device.Index + 1),
		PciDeviceId: device.Config.PciDeviceId,
	}
	for at, letter := range busID(device) {
		info.BusId[at] = int8(letter)
	}
	for at, letter := range busID(device)[4:] {
		info.BusIdLegacy[at] = int8(letter)
	}
	return info
}
