package main

// #include "handles.h"
import "C"

import (
	"sync"
	"time"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// How often a waiting program looks at the faults.
const look = 100 * time.Millisecond

// Handles of event sets come after those of devices.
const firstSet = 32

// As nvmlEventData_t lies in memory (nvml.h).
type eventData struct {
	device            unsafe.Pointer
	eventType         uint64
	eventData         uint64
	gpuInstanceID     uint32
	computeInstanceID uint32
}

// An eventSet knows of each registered device which events it wants and the last fault it was told.
type eventSet struct {
	wanted map[int]uint64
	seen   map[int]uint64
}

var (
	lock sync.Mutex
	sets = map[int]*eventSet{}
)

func newest(gpu int) uint64 {
	read, _ := readState()
	last := uint64(0)
	for _, each := range read.Faults {
		if each.GPU == gpu && each.Serial > last {
			last = each.Serial
		}
	}
	return last
}

//export nvmlEventSetCreate
func nvmlEventSetCreate(target *unsafe.Pointer) code {
	lock.Lock()
	defer lock.Unlock()
	for index := firstSet; index < firstMig; index++ {
		if sets[index] == nil {
			sets[index] = &eventSet{wanted: map[int]uint64{}, seen: map[int]uint64{}}
			*target = C.mock_handle(C.int(index))
			return code(nvml.SUCCESS)
		}
	}
	return code(nvml.ERROR_INSUFFICIENT_RESOURCES)
}

//export nvmlEventSetFree
func nvmlEventSetFree(handle unsafe.Pointer) code {
	lock.Lock()
	defer lock.Unlock()
	delete(sets, int(C.mock_index(handle)))
	return code(nvml.SUCCESS)
}

//export nvmlDeviceGetSupportedEventTypes
func nvmlDeviceGetSupportedEventTypes(handle unsafe.Pointer, types *C.ulonglong) code {
	_, failed := of(handle)
	if failed == 0 {
		*types = C.ulonglong(nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError)
	}
	return failed
}

//export nvmlDeviceRegisterEvents
func nvmlDeviceRegisterEvents(handle unsafe.Pointer, types C.ulonglong, target unsafe.Pointer) code {
	device, failed := of(handle)
	if failed != 0 {
		return failed
	}
	lock.Lock()
	defer lock.Unlock()
	set := sets[int(C.mock_index(target))]
	if set == nil {
		return code(nvml.ERROR_INVALID_ARGUMENT)
	}
	set.wanted[device.Index] = uint64(types)
	set.seen[device.Index] = newest(device.Index) // what was before is never told
	return code(nvml.SUCCESS)
}

// next gives an event that the set was not told of yet.
func (set *eventSet) next() (eventData, bool) {
	read, _ := readState()
	for _, each := range read.Faults {
		kind, data := uint64(0), uint64(0)
		switch each.Kind {
		case "xid":
			kind, data = nvml.EventTypeXidCriticalError, each.Value
		case "ecc":
			kind = nvml.EventTypeDoubleBitEccError
		}
		if set.wanted[each.GPU]&kind == 0 || each.Serial <= set.seen[each.GPU] {
			continue
		}
		set.seen[each.GPU] = each.Serial
		return eventData{
			device:            C.mock_handle(C.int(each.GPU)),
			eventType:         kind,
			eventData:         data,
			gpuInstanceID:     0xFFFFFFFF,
			computeInstanceID: 0xFFFFFFFF,
		}, true
	}
	return eventData{}, false
}

//export nvmlEventSetWait_v2
func nvmlEventSetWait_v2(handle unsafe.Pointer, data unsafe.Pointer, milliseconds C.uint) code {
	end := time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
	for {
		lock.Lock()
		set := sets[int(C.mock_index(handle))]
		if set == nil {
			lock.Unlock()
			return code(nvml.ERROR_INVALID_ARGUMENT)
		}
		event, ok := set.next()
		lock.Unlock()
		if ok {
			*(*eventData)(data) = event
			return code(nvml.SUCCESS)
		}
		if !time.Now().Before(end) {
			return code(nvml.ERROR_TIMEOUT)
		}
		time.Sleep(look)
	}
}
