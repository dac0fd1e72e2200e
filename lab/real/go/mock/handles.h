// Handles that programs get for devices and event sets: addresses of memory that Go never moves.
#pragma once
#define MOCK_HANDLES 256
void *mock_handle(int index);
int mock_index(void *handle);
const char *mock_error_string(int code);
