// Streams and devices as ATen names them. There is one device and, when a record is replayed, one order.
#pragma once
#include "tensor.h"

namespace at::cuda {
struct CUDAStream {
  cudaStream_t handle = nullptr;
  operator cudaStream_t() const { return handle; }
  cudaStream_t stream() const { return handle; }
  int device_index() const { return 0; }
  void synchronize() const { (void)cudaStreamSynchronize(handle); }
};
inline CUDAStream getCurrentCUDAStream(int = 0) { return {}; }
inline CUDAStream getDefaultCUDAStream(int = 0) { return {}; }
inline CUDAStream getStreamFromPool(bool = false, int = 0) {
  CUDAStream made;
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&made.handle, cudaStreamNonBlocking));
  return made;
}
inline const cudaDeviceProp* getDeviceProperties(int = 0) {
  static cudaDeviceProp found = [] {
    cudaDeviceProp asked;
    C10_CUDA_CHECK(cudaGetDeviceProperties(&asked, 0));
    return asked;
  }();
  return &found;
}
inline const cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(); }
inline int warp_size() { return 32; }
inline bool is_available() { return true; }
inline int device_count() { return 1; }
inline int current_device() { return 0; }
inline void set_device(int) {}
inline void synchronize(int = 0) { (void)cudaDeviceSynchronize(); }
inline void device_synchronize() { (void)cudaDeviceSynchronize(); }
struct CUDAGuard {
  explicit CUDAGuard(int) {}
  CUDAGuard(const Device&) {}
  CUDAGuard(const std::optional<Device>&) {}
  void set_index(int) {}
};
using OptionalCUDAGuard = CUDAGuard;
struct CUDAStreamGuard {
  explicit CUDAStreamGuard(const CUDAStream&) { kw_refuse("CUDAStreamGuard: another current stream"); }
};
}  // namespace at::cuda

namespace c10::cuda {
using namespace at::cuda;
using at::cuda::CUDAGuard;
using at::cuda::CUDAStream;
using at::cuda::getCurrentCUDAStream;
using at::cuda::getStreamFromPool;
using at::cuda::OptionalCUDAGuard;
}  // namespace c10::cuda

namespace at {
struct NoGradGuard {};
using DeviceGuard = cuda::CUDAGuard;
using OptionalDeviceGuard = cuda::CUDAGuard;
}  // namespace at

namespace torch {
using namespace at;
namespace cuda = at::cuda;
inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions device(Device place) { return TensorOptions(place); }
inline TensorOptions device(DeviceType kind) { return TensorOptions(Device(kind)); }
}  // namespace torch
