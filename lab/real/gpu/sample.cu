// A CUDA program that computes on one GPU. Without an argument it adds two vectors and checks each
// element of the sum. With the argument "copy" it measures how fast the GPU copies its own memory.
#include <cstdio>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

namespace {

constexpr int kElements = 1 << 20;
constexpr size_t kCopied = size_t{1} << 30;  // bytes
constexpr int kCopies = 20;

__global__ void add(const float *left, const float *right, float *sum) {
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < kElements) sum[index] = left[index] + right[index];
}

bool failed(cudaError_t error, const char *what) {
    if (error != cudaSuccess) std::printf("%s: %s\n", what, cudaGetErrorString(error));
    return error != cudaSuccess;
}

int vectors() {
    std::vector<float> left(kElements), right(kElements), sum(kElements, 0.0f);
    for (int index = 0; index < kElements; index++) {
        left[index] = static_cast<float>(index);
        right[index] = static_cast<float>(2 * index);
    }
    const size_t bytes = kElements * sizeof(float);
    float *on_gpu[3] = {};
    for (float *&array : on_gpu)
        if (failed(cudaMalloc(&array, bytes), "cudaMalloc")) return 1;
    if (failed(cudaMemcpy(on_gpu[0], left.data(), bytes, cudaMemcpyHostToDevice), "copy") ||
        failed(cudaMemcpy(on_gpu[1], right.data(), bytes, cudaMemcpyHostToDevice), "copy"))
        return 1;
    add<<<(kElements + 255) / 256, 256>>>(on_gpu[0], on_gpu[1], on_gpu[2]);
    if (failed(cudaGetLastError(), "kernel") ||
        failed(cudaMemcpy(sum.data(), on_gpu[2], bytes, cudaMemcpyDeviceToHost), "copy"))
        return 1;
    for (int index = 0; index < kElements; index++)
        if (sum[index] != left[index] + right[index]) {
            std::printf("element %d of the sum is wrong\n", index);
            return 1;
        }
    std::printf("Test PASSED\n");
    return 0;
}

int copies() {
    void *from = nullptr, *to = nullptr;
    cudaEvent_t begin, end;
    if (failed(cudaMalloc(&from, kCopied), "cudaMalloc") ||
        failed(cudaMalloc(&to, kCopied), "cudaMalloc") ||
        failed(cudaMemset(from, 1, kCopied), "cudaMemset") ||
        failed(cudaEventCreate(&begin), "event") || failed(cudaEventCreate(&end), "event"))
        return 1;
    cudaMemcpy(to, from, kCopied, cudaMemcpyDeviceToDevice);
    cudaEventRecord(begin);
    for (int copy = 0; copy < kCopies; copy++)
        cudaMemcpyAsync(to, from, kCopied, cudaMemcpyDeviceToDevice);
    cudaEventRecord(end);
    if (failed(cudaEventSynchronize(end), "copies")) return 1;
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, begin, end);
    // Each copy reads and writes all bytes.
    std::printf("# Copied, GB/s : %.1f\n", 2.0 * kCopied * kCopies / milliseconds / 1e6);
    return 0;
}

}  // namespace

int main(int arguments, char **argument) {
    return arguments > 1 && std::strcmp(argument[1], "copy") == 0 ? copies() : vectors();
}
