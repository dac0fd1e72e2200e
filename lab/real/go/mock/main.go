// Command mock is a libnvidia-ml.so.1 without a GPU: NVIDIA's go-nvml mocks behind NVML's C names.
//
// It answers what NVIDIA's device plugin, feature discovery and container toolkit ask. All other
// functions of nvml.h answer "not supported" (stubs.c, written at build time). Names, UUIDs and the
// library's version say that it is a mock.
package main

// #include "handles.h"
import "C"

import (
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func main() {}

//export nvmlInit_v2
func nvmlInit_v2() code {
	if !load() {
		return code(nvml.ERROR_DRIVER_NOT_LOADED)
	}
	return code(nvml.SUCCESS)
}

//export nvmlInitWithFlags
func nvmlInitWithFlags(flags C.uint) code { return nvmlInit_v2() }

//export nvmlShutdown
func nvmlShutdown() code { return code(nvml.SUCCESS) }

//export nvmlErrorString
func nvmlErrorString(value C.int) *C.char {
	return (*C.char)(unsafe.Pointer(C.mock_error_string(value)))
}

//export nvmlSystemGetDriverVersion
func nvmlSystemGetDriverVersion(text *C.char, length C.uint) code {
	if !load() {
		return code(nvml.ERROR_UNINITIALIZED)
	}
	return put(text, length, machine.DriverVersion)
}

//export nvmlSystemGetNVMLVersion
func nvmlSystemGetNVMLVersion(text *C.char, length C.uint) code {
	if !load() {
		return code(nvml.ERROR_UNINITIALIZED)
	}
	return put(text, length, machine.NvmlVersion+"-mock")
}

//export nvmlSystemGetCudaDriverVersion
func nvmlSystemGetCudaDriverVersion(version *C.int) code {
	if !load() {
		return code(nvml.ERROR_UNINITIALIZED)
	}
	*version = C.int(machine.CudaDriverVersion)
	return code(nvml.SUCCESS)
}

//export nvmlSystemGetCudaDriverVersion_v2
func nvmlSystemGetCudaDriverVersion_v2(version *C.int) code {
	return nvmlSystemGetCudaDriverVersion(version)
}
