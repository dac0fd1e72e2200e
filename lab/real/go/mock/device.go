package main

// #include "handles.h"
import "C"

import (
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

type code = C.int

func put(target *C.char, length C.uint, text string) code {
	if int(length) <= len(text) {
		return code(nvml.ERROR_INSUFFICIENT_SIZE)
	}
	copied := unsafe.Slice((*byte)(unsafe.Pointer(target)), len(text)+1)
	copy(copied, text)
	copied[len(text)] = 0
	return code(nvml.SUCCESS)
}

// of gives the device of a handle; a lost one answers no call but those that list it.
func of(handle unsafe.Pointer) (*server.Device, code) {
	index := int(C.mock_index(handle))
	if index < 0 || index >= len(devices) {
		return nil, code(nvml.ERROR_INVALID_ARGUMENT)
	}
	if isLost(devices[index]) {
		return nil, code(nvml.ERROR_GPU_IS_LOST)
	}
	return devices[index], code(nvml.SUCCESS)
}

func give(target *unsafe.Pointer, device *server.Device) code {
	*target = C.mock_handle(C.int(device.Index))
	return code(nvml.SUCCESS)
}

//export nvmlDeviceGetCount_v2
func nvmlDeviceGetCount_v2(count *C.uint) code {
	*count = C.uint(len(visible()))
	return code(nvml.SUCCESS)
}

//export nvmlDeviceGetHandleByIndex_v2
func nvmlDeviceGetHandleByIndex_v2(index C.uint, target *unsafe.Pointer) code {
	shown := visible()
	if int(index) >= len(shown) {
		return code(nvml.ERROR_INVALID_ARGUMENT)
	}
	return give(target, shown[index])
}

//export nvmlDeviceGetHandleByUUID
func nvmlDeviceGetHandleByUUID(text *C.char, target *unsafe.Pointer) code {
	for _, device := range visible() {
		if device.UUID == C.GoString(text) {
			return give(target, device)
		}
	}
	if migByUUID(C.GoString(text), target) {
		return code(nvml.SUCCESS)
	}
	return code(nvml.ERROR_NOT_FOUND)
}

//export nvmlDeviceGetHandleByPciBusId_v2
func nvmlDeviceGetHandleByPciBusId_v2(text *C.char, target *unsafe.Pointer) code {
	for _, device := range visible() {
		if wanted := C.GoString(text); busID(device) == wanted || busID(device)[4:] == wanted {
			return give(target, device)
		}
	}
	return code(nvml.ERROR_NOT_FOUND)
}

//export nvmlDeviceGetIndex
func nvmlDeviceGetIndex(handle unsafe.Pointer, index *C.uint) code {
	if isMig(handle) {
		part, failed := found(handle, firstMig)
		*index = C.uint(part.index)
		return failed
	}
	device, failed := of(handle)
	if failed != 0 {
		return failed
	}
	for at, each := range visible() {
		if each == device {
			*index = C.uint(at)
			return code(nvml.SUCCESS)
		}
	}
	return code(nvml.ERROR_NOT_FOUND)
}

//export nvmlDeviceGetMinorNumber
func nvmlDeviceGetMinorNumber(handle unsafe.Pointer, minor *C.uint) code {
	device, failed := of(handle)
	if failed == 0 {
		*minor = C.uint(device.Minor)
	}
	return failed
}

//export nvmlDeviceGetUUID
func nvmlDeviceGetUUID(handle unsafe.Pointer, text *C.char, length C.uint) code {
	if isMig(handle) {
		part, failed := found(handle, firstMig)
		if failed != 0 {
			return failed
		}
		return put(text, length, part.uuid())
	}
	device, failed := of(handle)
	if failed != 0 {
		return failed
	}
	return put(text, length, device.UUID)
}

//export nvmlDeviceGetName
func nvmlDeviceGetName(handle unsafe.Pointer, text *C.char, length C.uint) code {
	device, failed := of(handle)
	if failed != 0 {
		return failed
	}
	return put(text, length, device.Config.Name)
}

//export nvmlDeviceGetBrand
func nvmlDeviceGetBrand(handle unsafe.Pointer, brand *C.int) code {
	device, failed := of(handle)
	if failed == 0 {
		*brand = C.int(device.Config.Brand)
	}
	return failed
}

//export nvmlDeviceGetArchitecture
func nvmlDeviceGetArchitecture(handle unsafe.Pointer, architecture *C.uint) code {
	device, failed := of(handle)
	if failed == 0 {
		*architecture = C.uint(device.Config.Architecture)
	}
	return failed
}

//export nvmlDeviceGetCudaComputeCapability
func nvmlDeviceGetCudaComputeCapability(handle unsafe.Pointer, major, minor *C.int) code {
	device, failed := of(handle)
	if failed == 0 {
		*major, *minor = C.int(device.Config.CudaMajor), C.int(device.Config.CudaMinor)
	}
	return failed
}

//export nvmlDeviceGetMemoryInfo
func nvmlDeviceGetMemoryInfo(handle unsafe.Pointer, memory unsafe.Pointer) code {
	if isMig(handle) {
		part, failed := found(handle, firstMig)
		if failed == 0 {
			total := part.info().MemorySizeMB << 20
			*(*nvml.Memory)(memory) = nvml.Memory{Total: total, Free: total}
		}
		return failed
	}
	device, failed := of(handle)
	if failed == 0 {
		total := device.MemoryInfo.Total
		*(*nvml.Memory)(memory) = nvml.Memory{Total: total, Free: total}
	}
	return failed
}

//export nvmlDeviceGetPciInfo_v3
func nvmlDeviceGetPciInfo_v3(handle unsafe.Pointer, info unsafe.Pointer) code {
	device, failed := of(handle)
	if failed == 0 {
		*(*nvml.PciInfo)(info) = pciInfo(device)
	}
	return failed
}

//export nvmlDeviceGetTopologyCommonAncestor
func nvmlDeviceGetTopologyCommonAncestor(one, two unsafe.Pointer, level *C.int) code {
	*level = C.int(nvml.TOPOLOGY_SYSTEM) // the mocks know no topology: all are equally far
	return code(nvml.SUCCESS)
}

//export nvmlDeviceGetTotalEccErrors
func nvmlDeviceGetTotalEccErrors(handle unsafe.Pointer, kind, counter C.int, count *C.ulonglong) code {
	device, failed := of(handle)
	if failed == 0 {
		*count = C.ulonglong(eccErrors(device))
	}
	return failed
}
