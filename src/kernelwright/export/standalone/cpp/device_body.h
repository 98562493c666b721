// A kernel of a GPU contract: launches with everything but addresses filled in, through the CUDA driver.
//
// No header of CUDA is needed and nothing is linked: functions are found by name when a first plan is entered.
// Structures are as cuda.h has them; the test that compares driver.py with that header covers the same numbers.
#pragma once

#include <c10/core/DeviceGuard.h>
#include <dlfcn.h>

#include <array>
#include <cstring>
#include <map>
#include <tuple>
#include <variant>

#include "plan.h"

namespace kernelwright {

constexpr int NOT_CURRENT = 201;
constexpr size_t SLOT = 64, MAP_BYTES = 128;

struct LaunchAttribute {
  unsigned id;
  char pad[4];
  unsigned value[16];
};
struct LaunchConfiguration {
  unsigned grid[3], block[3], shared;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;
};

class DriverFailure : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Driver {
 public:
  explicit Driver(const std::string& library, const std::string& streams) {
    find(library, "cuLaunchKernelEx", launch_);
    find(library, "cuGetErrorName", name_);
    find(library, "cuDevicePrimaryCtxRetain", retain_);
    find(library, "cuCtxSetCurrent", current_);
    find(library, "cuMemsetD8Async", fill_);
    find(library, "cuMemsetD16Async", fill_twos_);
    find(library, "cuMemsetD32Async", fill_fours_);
    find(library, "cuMemcpyDtoDAsync_v2", copy_);
    find(library, "cuStreamIsCapturing", capturing_);
    find(library, "cuTensorMapEncodeTiled", encode_);
    if (!streams.empty()) find(streams, "aoti_torch_get_current_cuda_stream", stream_);
  }

  void launch(LaunchConfiguration& form, void* kernel, void** arguments, int device) const {
    int status = launch_(&form, kernel, arguments, nullptr);
    if (status == NOT_CURRENT) {  // a thread that is new to CUDA has no context
      void* context = nullptr;
      check(retain_(&context, device), "cuDevicePrimaryCtxRetain");
      check(current_(context), "cuCtxSetCurrent");
      status = launch_(&form, kernel, arguments, nullptr);
    }
    check(status, "cuLaunchKernelEx");
  }
  void fill_zero(void* address, size_t size, void* stream) const {
    check(fill_(address, 0, size, stream), "cuMemsetD8Async");
  }
  void fill(void* address, size_t size, unsigned value, size_t width, void* stream) const {
    if (width == 4) {
      check(fill_fours_(address, value, size / 4, stream), "cuMemsetD32Async");
    } else if (width == 2) {
      check(fill_twos_(address, static_cast<unsigned short>(value), size / 2, stream), "cuMemsetD16Async");
    } else {
      check(fill_(address, static_cast<unsigned char>(value), size, stream), "cuMemsetD8Async");
    }
  }
  void copy(void* target, void* source, size_t size, void* stream) const {
    check(copy_(target, source, size, stream), "cuMemcpyDtoDAsync");
  }
  bool capturing(void* stream) const {
    int status = 0;
    check(capturing_(stream, &status), "cuStreamIsCapturing");
    return status != 0;
  }
  void* current_stream(c10::Device device) const {
    void* stream = nullptr;
    if (stream_ != nullptr && stream_(device.index(), &stream) != 0) throw DriverFailure("torch has no current stream");
    return stream;
  }
  template <typename... Arguments>
  void encode(Arguments... arguments) const {
    check(encode_(arguments...), "cuTensorMapEncodeTiled");
  }

 private:
  template <typename Function>
  static void find(const std::string& library, const char* name, Function& function) {
    void* opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    function = opened ? reinterpret_cast<Function>(dlsym(opened, name)) : nullptr;
    if (function == nullptr) throw DriverFailure(library + " has no " + name);
  }
  void check(int status, const char* what) const {
    if (status == 0) return;
    const char* name = nullptr;
    name_(status, &name);
    throw DriverFailure(std::string(what) + ": " + (name ? name : "unknown error"));
  }

  int (*launch_)(const LaunchConfiguration*, void*, void**, void**) = nullptr;
  int (*name_)(int, const char**) = nullptr;
  int (*retain_)(void**, int) = nullptr;
  int (*current_)(void*) = nullptr;
  int (*fill_)(void*, unsigned char, size_t, void*) = nullptr;
  int (*fill_twos_)(void*, unsigned short, size_t, void*) = nullptr;
  int (*fill_fours_)(void*, unsigned, size_t, void*) = nullptr;
  int (*copy_)(void*, void*, size_t, void*) = nullptr;
  int (*capturing_)(void*, int*) = nullptr;
  int (*encode_)(void*, unsigned, unsigned, void*, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*,
                 unsigned, unsigned, unsigned, unsigned) = nullptr;
  int (*stream_)(int, void**) = nullptr;
};

struct TensorMap {
  unsigned type = 0;
  std::vector<uint64_t> sizes, strides;
  std::vector<uint32_t> box, steps;
  unsigned interleave = 0, swizzle = 0, promotion = 0, fill = 0;
  size_t slot = 0;
  uint64_t offset = 0;
};
struct Pointer {
  size_t place, slot;  // where in the argument's bytes, and which address
  uint64_t offset;
};
class EncodedMaps;
struct DeviceArgument {
  std::string data;
  std::vector<Pointer> pointers;
  std::optional<TensorMap> map;
  std::shared_ptr<EncodedMaps> encoded;
};
struct Launch {
  uint64_t kernel;
  std::vector<unsigned> grid, block;
  unsigned shared;
  std::vector<std::pair<unsigned, std::vector<unsigned>>> attributes;
  std::vector<DeviceArgument> arguments;
};
struct Memset {
  size_t slot;
  uint64_t offset;
  size_t bytes;
  unsigned value;
  size_t width;
};
struct Copy {
  size_t target;
  uint64_t target_offset;
  size_t source;
  uint64_t source_offset;
  size_t bytes;
};
using Step = std::variant<Launch, Memset, Copy>;
struct Memory {
  size_t bytes;
  bool zero;
};

// The tensor maps of one argument by address. All else that one consists of is the plan's, so an address that comes
// again has the same map, whatever lies there now.
class EncodedMaps {
 public:
  template <typename Encode>
  void write(void* address, char* target, const Encode& encode) {
    const std::lock_guard<std::mutex> guard(mutex_);
    for (const auto& [known, bytes] : kept_) {
      if (known == address) {
        std::memcpy(target, bytes.data(), MAP_BYTES);
        return;
      }
    }
    encode(address, target);
    auto& [known, bytes] = kept_[next_++ % kept_.size()];
    known = address;
    std::memcpy(bytes.data(), target, MAP_BYTES);
  }

 private:
  std::mutex mutex_;
  std::array<std::pair<void*, std::array<char, MAP_BYTES>>, 16> kept_{};  // no tensor map is of address 0
  size_t next_ = 0;
};

inline at::Tensor device_bytes(size_t size, c10::Device device) {
  const int64_t count = static_cast<int64_t>(std::max<size_t>(1, size));
  return at::empty({count}, at::TensorOptions().dtype(at::kByte).device(device));
}

// Of one library: zero before the first call, and left zero by each. One for each stream; a graph that is captured has
// one of its own, since two graphs that were captured on one stream may run at once.
class Workspaces {
 public:
  std::mutex mutex;  // held while launches that share one are enqueued, so that two threads' do not mingle

  at::Tensor at_stream(const Driver& driver, const std::string& name, size_t size, c10::Device device, void* stream) {
    if (driver.capturing(stream)) return zeroed(driver, size, device, stream);
    at::Tensor& found = kept_[{device.index(), stream, name}];
    if (!found.defined() || found.nbytes() < size) found = zeroed(driver, size, device, stream);
    return found;
  }
  void forget() { kept_.clear(); }

 private:
  static at::Tensor zeroed(const Driver& driver, size_t size, c10::Device device, void* stream) {
    at::Tensor fresh = device_bytes(size, device);
    driver.fill_zero(fresh.mutable_data_ptr(), size, stream);
    return fresh;
  }
  std::map<std::tuple<int, void*, std::string>, at::Tensor> kept_;
};

class DeviceBody final : public Body {
 public:
  // Addresses have slots in this order: tensors, outputs, scratch, workspaces.
  DeviceBody(std::shared_ptr<Driver> driver, std::shared_ptr<Workspaces> shared, c10::Device device,
             std::vector<Step> steps, std::vector<Memory> scratch,
             std::vector<std::pair<std::string, size_t>> workspaces, size_t slots)
      : driver_(std::move(driver)),
        shared_(std::move(shared)),
        device_(device),
        steps_(std::move(steps)),
        scratch_(std::move(scratch)),
        workspaces_(std::move(workspaces)) {
    const size_t most = slots + scratch_.size() + workspaces_.size();
    for (const Step& step : steps_) {
      if (const auto* launch = std::get_if<Launch>(&step)) {
        require_addresses(*launch, most);
      } else if (const auto* fill = std::get_if<Memset>(&step)) {
        if (fill->slot >= most) throw std::invalid_argument("a memset has no address");
      } else if (std::get<Copy>(step).target >= most || std::get<Copy>(step).source >= most) {
        throw std::invalid_argument("a copy has no address");
      }
    }
  }

  void run(const Addresses& given) override {
    const c10::OptionalDeviceGuard guard(device_.is_cpu() ? std::optional<c10::Device>() : device_);
    void* stream = driver_->current_stream(device_);
    Addresses addresses(given.begin(), given.end());
    std::vector<at::Tensor> kept;  // until all is enqueued; the allocator gives it to this stream alone after that
    for (const Memory& one : scratch_) {
      kept.push_back(device_bytes(one.bytes, device_));
      addresses.push_back(kept.back().mutable_data_ptr());
      if (one.zero) driver_->fill_zero(addresses.back(), one.bytes, stream);
    }
    std::unique_lock<std::mutex> lock(shared_->mutex, std::defer_lock);
    if (!workspaces_.empty()) lock.lock();
    for (const auto& [name, size] : workspaces_) {
      kept.push_back(shared_->at_stream(*driver_, name, size, device_, stream));
      addresses.push_back(kept.back().mutable_data_ptr());
    }
    try {
      for (const Step& step : steps_) {
        if (const auto* launch = std::get_if<Launch>(&step)) {
          enqueue(*launch, addresses, stream);
        } else if (const auto* fill = std::get_if<Memset>(&step)) {
          driver_->fill(behind(addresses[fill->slot], fill->offset), fill->bytes, fill->value, fill->width, stream);
        } else {
          const Copy& copy = std::get<Copy>(step);
          driver_->copy(behind(addresses[copy.target], copy.target_offset),
                        behind(addresses[copy.source], copy.source_offset), copy.bytes, stream);
        }
      }
    } catch (const DriverFailure&) {
      if (lock.owns_lock()) shared_->forget();  // what a launch that failed left there is not known
      throw;
    }
  }

 private:
  static void require_addresses(const Launch& launch, size_t most) {
    if (launch.grid.size() != 3 || launch.block.size() != 3) throw std::invalid_argument("a grid has three sizes");
    for (const DeviceArgument& one : launch.arguments) {
      if (one.map && one.map->slot >= most) throw std::invalid_argument("a tensor map has no address");
      for (const Pointer& pointer : one.pointers)
        if (pointer.slot >= most || pointer.place + sizeof(void*) > one.data.size())
          throw std::invalid_argument("an address lies outside of its argument");
    }
  }

  static void* behind(void* address, uint64_t offset) { return static_cast<char*>(address) + offset; }

  // With arguments in memory of this call's own, each in a slot that is aligned for anything.
  void enqueue(const Launch& launch, const Addresses& addresses, void* stream) const {
    size_t total = SLOT;
    for (const DeviceArgument& one : launch.arguments) total += slotted(one);
    c10::SmallVector<char, 1024> buffer(total);
    c10::SmallVector<void*, 16> pointers;
    char* at = buffer.data() + (SLOT - reinterpret_cast<uintptr_t>(buffer.data()) % SLOT) % SLOT;
    for (const DeviceArgument& one : launch.arguments) {
      if (one.map) {
        void* address = behind(addresses[one.map->slot], one.map->offset);
        one.encoded->write(address, at, [&](void* of, char* target) { encode(*one.map, of, target); });
      } else {
        std::memcpy(at, one.data.data(), one.data.size());
        for (const Pointer& pointer : one.pointers) {
          const void* address = behind(addresses[pointer.slot], pointer.offset);
          std::memcpy(at + pointer.place, &address, sizeof address);
        }
      }
      pointers.push_back(at);
      at += slotted(one);
    }
    c10::SmallVector<LaunchAttribute, 4> attributes;
    for (const auto& [id, values] : launch.attributes) {
      LaunchAttribute one{id, {}, {}};
      std::copy_n(values.begin(), std::min<size_t>(values.size(), 16), one.value);
      attributes.push_back(one);
    }
    const auto &grid = launch.grid, &block = launch.block;
    LaunchConfiguration form{{grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, launch.shared, stream,
                             attributes.data(), static_cast<unsigned>(attributes.size())};
    driver_->launch(form, reinterpret_cast<void*>(launch.kernel), pointers.data(), device_.index());
  }

  static size_t slotted(const DeviceArgument& one) {
    const size_t size = one.map ? MAP_BYTES : one.data.size();
    return (size + SLOT - 1) / SLOT * SLOT;
  }

  void encode(const TensorMap& map, void* address, char* target) const {
    driver_->encode(static_cast<void*>(target), map.type, static_cast<unsigned>(map.sizes.size()), address,
                    map.sizes.data(), map.strides.data(), map.box.data(), map.steps.data(), map.interleave,
                    map.swizzle, map.promotion, map.fill);
  }

  std::shared_ptr<Driver> driver_;
  std::shared_ptr<Workspaces> shared_;
  c10::Device device_;
  std::vector<Step> steps_;
  std::vector<Memory> scratch_;
  std::vector<std::pair<std::string, size_t>> workspaces_;
};

}  // namespace kernelwright
