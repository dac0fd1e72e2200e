#include "handles.h"

static char handles[MOCK_HANDLES][16];

void *mock_handle(int index) { return index < 0 || index >= MOCK_HANDLES ? 0 : handles[index]; }

int mock_index(void *handle) {
    long distance = (char *)handle - handles[0];
    return distance < 0 || distance >= (long)sizeof handles ? -1 : (int)(distance / 16);
}

const char *mock_error_string(int code) {
    switch (code) {
    case 0: return "Success (mock NVML)";
    case 1: return "Uninitialized (mock NVML)";
    case 2: return "Invalid Argument (mock NVML)";
    case 3: return "Not Supported (mock NVML)";
    case 6: return "Not Found (mock NVML)";
    case 10: return "Timeout (mock NVML)";
    case 15: return "GPU is lost (mock NVML)";
    default: return "Unknown Error (mock NVML)";
    }
}
