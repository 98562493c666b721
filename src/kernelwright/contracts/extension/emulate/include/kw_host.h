// The CUDA runtime for host code on the emulator: everything happens at once, in the order in which it is asked for.
#pragma once
#include "emulator.h"

#include "call_abi.h"

using cudaError_t = int;
constexpr cudaError_t cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9;
struct KwStream;
struct KwEvent;
using cudaStream_t = KwStream*;
using cudaEvent_t = KwEvent*;
enum cudaMemcpyKind {
  cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout = 9 };
enum cudaFuncCache { cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1, cudaFuncCachePreferEqual };
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1, cudaDevAttrMaxSharedMemoryPerBlock = 8, cudaDevAttrWarpSize = 10,
  cudaDevAttrMultiProcessorCount = 16, cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrComputeCapabilityMajor = 75, cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrCooperativeLaunch = 95, cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
constexpr unsigned cudaStreamNonBlocking = 1, cudaStreamDefault = 0, cudaEventDisableTiming = 2, cudaEventDefault = 0;

struct cudaDeviceProp {
  char name[256] = "emulator";
  int major = KW_ARCHITECTURE / 100, minor = KW_ARCHITECTURE / 10 % 10, multiProcessorCount = KW_MULTIPROCESSORS;
  int warpSize = 32, maxThreadsPerBlock = 1024, maxThreadsPerMultiProcessor = 2048, regsPerBlock = 65536;
  int regsPerMultiprocessor = 65536, maxBlocksPerMultiProcessor = 32, l2CacheSize = KW_L2_BYTES, cooperativeLaunch = 1;
  int maxThreadsDim[3] = {1024, 1024, 64}, maxGridSize[3] = {2147483647, 65535, 65535};
  size_t sharedMemPerBlock = 49152, sharedMemPerBlockOptin = KW_SHARED_PER_BLOCK;
  size_t sharedMemPerMultiprocessor = KW_SHARED_PER_BLOCK + 1024, totalGlobalMem = size_t(64) << 30, totalConstMem = 65536;
};

namespace kw {

static cudaError_t last_error;
static unsigned most_dynamic_shared = 49152;
[[maybe_unused]] static bool leave_out_kernels;  // to see whether they matter
struct Allocation {
  Memory memory;
  Allocation* next;
};
static Allocation* allocations;

static void free_allocations() {
  while (Allocation* one = allocations) {
    allocations = one->next;
    delete one;
  }
}

struct Config {
  dim3 grid, block;
  size_t shared;
  Config(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t = nullptr) : grid(grid), block(block), shared(shared) {}
};

// Refuses what the driver would refuse: without a launch, and with an error that host code may look at.
static bool launchable(const Config& c) {
  unsigned long threads = 1ul * c.block.x * c.block.y * c.block.z;
  bool sized = c.grid.x && c.grid.y && c.grid.z && c.grid.x <= 2147483647u && c.grid.y <= 65535 && c.grid.z <= 65535;
  if (!sized || !threads || threads > 1024 || c.block.z > 64) {
    last_error = cudaErrorInvalidConfiguration;
    return false;
  }
  if (c.shared > most_dynamic_shared) {
    last_error = cudaErrorInvalidValue;
    return false;
  }
  return true;
}

template <class Kernel, class... Values>
void launch_from_host(const char* name, const Config& config, const Kernel& kernel, const Values&... values) {
  if (!launchable(config) || leave_out_kernels) return;
  auto body = [&] { kernel(std::decay_t<Values>(values)...); };
  using Body = decltype(body);
  Geometry geometry{name, config.grid, config.block, dim3(1, 1, 1), unsigned(config.shared), false, false,
                    KW_MULTIPROCESSORS, KW_SHARED_PER_BLOCK};
  run_launch(geometry, [](const void* raw) { (*static_cast<const Body*>(raw))(); }, &body);
  machine.geometry.kernel = "host code";
}

}  // namespace kw

extern "C" __attribute__((visibility("hidden"))) inline void* kw_allocate(size_t bytes) {
  kw::allocations = new kw::Allocation{{"an allocation", bytes ? bytes : 1, kw::Fill::garbage}, kw::allocations};
  return kw::allocations->memory.data;
}
extern "C" __attribute__((visibility("hidden"), noreturn)) inline void kw_refuse(const char* reason) {
  kw::report("%s, which no record can have", reason);
  __builtin_unreachable();
}

#define KW_LAUNCH(kernel, blocks, threads, ...) \
  ::kw::launch_from_host("an operation on tensors", ::kw::Config(blocks, threads), kernel, __VA_ARGS__)
#define PYBIND11_MODULE(name, variable, ...) \
  static void kw_define_module([[maybe_unused]] ::pybind11::module_& variable)
#define TORCH_EXTENSION_NAME extension

static inline cudaError_t cudaGetLastError() { return std::exchange(kw::last_error, cudaSuccess); }
static inline cudaError_t cudaPeekAtLastError() { return kw::last_error; }
static inline const char* cudaGetErrorString(cudaError_t error) { return error ? "invalid launch or value" : "no error"; }
static inline const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }
static inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
static inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
static inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
static inline cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int) { return *found = {}, cudaSuccess; }
static inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int) {
  const cudaDeviceProp p;
  switch (what) {
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 49152; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMultiProcessorCount: *value = KW_MULTIPROCESSORS; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrCooperativeLaunch: *value = 1; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = KW_SHARED_PER_BLOCK; break;
  }
  return cudaSuccess;
}
static inline cudaError_t cudaStreamCreate(cudaStream_t* stream) { return *stream = nullptr, cudaSuccess; }
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }
static inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) { return cudaStreamCreate(stream); }
static inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
static inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
static inline cudaError_t cudaEventCreate(cudaEvent_t* event) { return *event = nullptr, cudaSuccess; }
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
static inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
static inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = nullptr) { return cudaSuccess; }
static inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) { return cudaSuccess; }
template <class T>
cudaError_t cudaMalloc(T** made, size_t bytes) { return *made = static_cast<T*>(kw_allocate(bytes)), cudaSuccess; }
template <class T>
cudaError_t cudaMallocAsync(T** made, size_t bytes, cudaStream_t) { return cudaMalloc(made, bytes); }
static inline cudaError_t cudaFree(void*) { return cudaSuccess; }
static inline cudaError_t cudaFreeAsync(void*, cudaStream_t) { return cudaSuccess; }
static inline cudaError_t cudaMemset(void* to, int value, size_t bytes) { return memset(to, value, bytes), cudaSuccess; }
static inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t = nullptr) {
  return cudaMemset(to, value, bytes);
}
static inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (kind != cudaMemcpyDeviceToDevice) kw_refuse("cudaMemcpy between host and device");
  return memcpy(to, from, bytes), cudaSuccess;
}
static inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t = nullptr) {
  return cudaMemcpy(to, from, bytes, kind);
}
template <class F>
cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute what, int value) {
  if (what != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || unsigned(value) > KW_SHARED_PER_BLOCK) return kw::last_error = cudaErrorInvalidValue;
  if (unsigned(value) > kw::most_dynamic_shared) kw::most_dynamic_shared = unsigned(value);
  return cudaSuccess;
}
template <class F>
cudaError_t cudaFuncSetCacheConfig(F, cudaFuncCache) { return cudaSuccess; }
template <class F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, F, int threads, size_t shared) {
  int by_threads = threads > 0 ? 2048 / threads : 0, by_shared = int((KW_SHARED_PER_BLOCK + 1024) / (shared + 1024));
  return *blocks = by_threads < by_shared ? by_threads : by_shared, cudaSuccess;
}
