package main

// #include "handles.h"
import "C"

import (
	"crypto/sha256"
	"fmt"
	"os"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

// MIG devices of one GPU at most, as an A100 has.
const most = 7

// Where handles of MIG devices, of their GPU instances and of their compute instances begin.
const (
	firstMig     = 64
	firstGpuPart = 128
	firstCompute = 192
)

// The number of the kernel's capability file of the first MIG device (MIG User Guide, "Device Nodes
// and Capabilities": 1 and 2 are config and monitor).
const firstCapability = 3

// A migDevice is a GPU instance with one compute instance.
type migDevice struct {
	gpu     *server.Device
	index   int
	profile int // as nvmlDeviceGetGpuInstanceProfileInfo counts
}

// Profiles by their names' beginning; the mocks' GPUs say which of them they have.
var migProfiles = map[string]int{
	"1g": nvml.GPU_INSTANCE_PROFILE_1_SLICE,
	"2g": nvml.GPU_INSTANCE_PROFILE_2_SLICE,
	"3g": nvml.GPU_INSTANCE_PROFILE_3_SLICE,
	"4g": nvml.GPU_INSTANCE_PROFILE_4_SLICE,
	"7g": nvml.GPU_INSTANCE_PROFILE_7_SLICE,
}

// migOf gives the MIG devices of a GPU, and whether its mode is on.
func migOf(gpu *server.Device) ([]migDevice, bool) {
	read, _ := readState()
	if gpu.Index >= len(read.Mig) || read.Mig[gpu.Index] == nil {
		return nil, false
	}
	var found []migDevice
	for index, name := range read.Mig[gpu.Index] {
		profile, known := migProfiles[name[:min(2, len(name))]]
		if known && index < most {
			found = append(found, migDevice{gpu, index, profile})
		}
	}
	return found, true
}

func (m migDevice) number() int { return m.gpu.Index*(most+1) + m.index }

// The ids that the driver gives instances; any would do.
func (m migDevice) gpuInstance() int { return m.index + 1 }

func (m migDevice) info() nvml.GpuInstanceProfileInfo {
	return m.gpu.Config.MIGProfiles.GpuInstanceProfiles[m.profile]
}

func (m migDevice) uuid() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/mig/%d", m.gpu.UUID, m.index))
	return fmt.Sprintf("MIG-6d6f636b-%x-%x-%x-%x", sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// isHere says whether a program has the two files that let it use the device.
func (m migDevice) isHere() bool {
	first := firstCapability + 2*m.number()
	for capability := first; capability < first+2; capability++ {
		if _, err := os.Stat(fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", capability)); err != nil {
			return false
		}
	}
	return true
}

// found gives the device of a handle in one of the three regions.
func found(handle unsafe.Pointer, first int) (migDevice, code) {
	number := int(C.mock_index(handle)) - first
	if number < 0 || number/(most+1) >= len(devices) {
		return migDevice{}, code(nvml.ERROR_INVALID_ARGUMENT)
	}
	gpu := devices[number/(most+1)]
	if isLost(gpu) {
		return migDevice{}, code(nvml.ERROR_GPU_IS_LOST)
	}
	parts, _ := migOf(gpu)
	if index := number % (most + 1); index < len(parts) {
		return parts[index], code(nvml.SUCCESS)
	}
	return migDevice{}, code(nvml.ERROR_NOT_FOUND)
}

func isMig(handle unsafe.Pointer) bool {
	number := int(C.mock_index(handle))
	return number >= firstMig && number < firstGpuPart
}

//export nvmlDeviceGetMigMode
func nvmlDeviceGetMigMode(handle unsafe.Pointer, current, pending *C.uint) code {
	device, failed := of(handle)
	if failed == 0 {
		*current, *pending = 0, 0
		if _, on := migOf(device); on {
			*current, *pending = 1, 1
		}
	}
	return failed
}

//export nvmlDeviceGetMaxMigDeviceCount
func nvmlDeviceGetMaxMigDeviceCount(handle unsafe.Pointer, count *C.uint) code {
	_, failed := of(handle)
	if failed == 0 {
		*count = most
	}
	return failed
}

//export nvmlDeviceGetMigDeviceHandleByIndex
func nvmlDeviceGetMigDeviceHandleByIndex(handle unsafe.Pointer, index C.uint, target *unsafe.Pointer) code {
	device, failed := of(handle)
	if failed != 0 {
		return failed
	}
	shown := uint(0)
	parts, _ := migOf(device)
	for _, each := range parts {
		if !each.isHere() {
			continue
		}
		if shown == uint(index) {
			*target = C.mock_handle(C.int(firstMig + each.number()))
			return code(nvml.SUCCESS)
		}
		shown++
	}
	return code(nvml.ERROR_NOT_FOUND)
}

func migByUUID(text string, target *unsafe.Pointer) bool {
	for _, device := range visible() {
		parts, _ := migOf(device)
		for _, each := range parts {
			if each.uuid() == text && each.isHere() {
				*target = C.mock_handle(C.int(firstMig + each.number()))
				return true
			}
		}
	}
	return false
}

//export nvmlDeviceIsMigDeviceHandle
func nvmlDeviceIsMigDeviceHandle(handle unsafe.Pointer, is *C.uint) code {
	*is = 0
	if isMig(handle) {
		*is = 1
	}
	return code(nvml.SUCCESS)
}

//export nvmlDeviceGetDeviceHandleFromMigDeviceHandle
func nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle unsafe.Pointer, target *unsafe.Pointer) code {
	part, failed := found(handle, firstMig)
	if failed == 0 {
		return give(target, part.gpu)
	}
	return failed
}

//export nvmlDeviceGetGpuInstanceId
func nvmlDeviceGetGpuInstanceId(handle unsafe.Pointer, id *C.uint) code {
	part, failed := found(handle, firstMig)
	if failed == 0 {
		*id = C.uint(part.gpuInstance())
	}
	return failed
}

//export nvmlDeviceGetComputeInstanceId
func nvmlDeviceGetComputeInstanceId(handle unsafe.Pointer, id *C.uint) code {
	_, failed := found(handle, firstMig)
	if failed == 0 {
		*id = 0
	}
	return failed
}

//export nvmlDeviceGetAttributes_v2
func nvmlDeviceGetAttributes_v2(handle unsafe.Pointer, attributes unsafe.Pointer) code {
	part, failed := found(handle, firstMig)
	if failed == 0 {
		info := part.info()
		*(*nvml.DeviceAttributes)(attributes) = nvml.DeviceAttributes{
			MultiprocessorCount:       info.MultiprocessorCount,
			SharedCopyEngineCount:     info.CopyEngineCount,
			SharedDecoderCount:        info.DecoderCount,
			SharedEncoderCount:        info.EncoderCount,
			SharedJpegCount:           info.JpegCount,
			SharedOfaCount:            info.OfaCount,
			GpuInstanceSliceCount:     info.SliceCount,
			ComputeInstanceSliceCount: info.SliceCount,
			MemorySizeMB:              info.MemorySizeMB,
		}
	}
	return failed
}

//export nvmlDeviceGetGpuInstanceProfileInfo
func nvmlDeviceGetGpuInstanceProfileInfo(handle unsafe.Pointer, profile C.uint, info unsafe.Pointer) code {
	device, failed := of(handle)
	if failed != 0 {
		return failed
	}
	got, result := device.GetGpuInstanceProfileInfo(int(profile))
	if result == nvml.SUCCESS {
		*(*nvml.GpuInstanceProfileInfo)(info) = got
	}
	return code(result)
}

//export nvmlDeviceGetGpuInstanceById
func nvmlDeviceGetGpuInstanceById(handle unsafe.Pointer, id C.uint, target *unsafe.Pointer) code {
	device, failed := of(handle)
	if failed != 0 {
		return failed
	}
	parts, _ := migOf(device)
	for _, each := range parts {
		if each.gpuInstance() == int(id) {
			*target = C.mock_handle(C.int(firstGpuPart + each.number()))
			return code(nvml.SUCCESS)
		}
	}
	return code(nvml.ERROR_NOT_FOUND)
}

// As nvmlGpuInstanceInfo_t and nvmlComputeInstanceInfo_t lie in memory (nvml.h).
type gpuInstanceInfo struct {
	device      unsafe.Pointer
	id, profile uint32
	placement   nvml.GpuInstancePlacement
}

type computeInstanceInfo struct {
	device, gpuInstance unsafe.Pointer
	id, profile         uint32
	placement           nvml.ComputeInstancePlacement
}

//export nvmlGpuInstanceGetInfo
func nvmlGpuInstanceGetInfo(handle unsafe.Pointer, info unsafe.Pointer) code {
	part, failed := found(handle, firstGpuPart)
	if failed == 0 {
		*(*gpuInstanceInfo)(info) = gpuInstanceInfo{
			device:  C.mock_handle(C.int(part.gpu.Index)),
			id:      uint32(part.gpuInstance()),
			profile: part.info().Id,
		}
	}
	return failed
}

//export nvmlGpuInstanceGetComputeInstanceById
func nvmlGpuInstanceGetComputeInstanceById(handle unsafe.Pointer, id C.uint, target *unsafe.Pointer) code {
	part, failed := found(handle, firstGpuPart)
	if failed != 0 {
		return failed
	}
	if id != 0 {
		return code(nvml.ERROR_NOT_FOUND)
	}
	*target = C.mock_handle(C.int(firstCompute + part.number()))
	return code(nvml.SUCCESS)
}

//export nvmlComputeInstanceGetInfo_v2
func nvmlComputeInstanceGetInfo_v2(handle unsafe.Pointer, info unsafe.Pointer) code {
	part, failed := found(handle, firstCompute)
	if failed == 0 {
		*(*computeInstanceInfo)(info) = computeInstanceInfo{
			device:      C.mock_handle(C.int(part.gpu.Index)),
			gpuInstance: C.mock_handle(C.int(firstGpuPart + part.number())),
			profile:     uint32(part.profile),
		}
	}
	return failed
}

//export nvmlGpuInstanceGetComputeInstanceProfileInfo
func nvmlGpuInstanceGetComputeInstanceProfileInfo(
	handle unsafe.Pointer, profile, engine C.uint, info unsafe.Pointer,
) code {
	part, failed := found(handle, firstGpuPart)
	if failed != 0 {
		return failed
	}
	known, exists := part.gpu.Config.MIGProfiles.ComputeInstanceProfiles[part.profile][int(profile)]
	if !exists || engine != 0 {
		return code(nvml.ERROR_NOT_SUPPORTED)
	}
	*(*nvml.ComputeInstanceProfileInfo)(info) = known
	return code(nvml.SUCCESS)
}
