// What a call of known shapes needs: outputs to allocate and a body to run, found by one lookup.
//
// A plan is entered from Python, after every guard there has agreed, and is found again only by a call that is alike in
// all that those guards asked: shapes, dtypes, device, threads, deterministic mode. What can differ between two calls
// that are alike in these (strides, addresses, lazy negatives, tangents) is asked of every call.
#pragma once

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>
#include <c10/util/accumulate.h>
#include <torch/csrc/autograd/variable.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace kernelwright {

using Tensors = c10::SmallVector<const at::Tensor*, 8>;

// Where tensors lie, and copies of those that do not lie where a kernel may read them.
struct Addresses : c10::SmallVector<void*, 12> {
  using c10::SmallVector<void*, 12>::SmallVector;
  std::vector<at::Tensor> copies;
};

constexpr uint64_t PAGE = 4096, SLACK = 256, COPIED = 1 << 16;  // as in host.py
constexpr uint64_t BRIEF = 1 << 15;  // bytes read and written: about a microsecond
constexpr size_t MOST_PLANS = 4096;

struct Form {
  std::vector<int64_t> sizes;
  c10::ScalarType dtype;
  uint64_t bytes() const { return c10::multiply_integers(sizes) * c10::elementSize(dtype); }
};

// The kernel itself. `addresses` are those of the tensors in order, and of the outputs.
struct Body {
  virtual ~Body() = default;
  virtual void run(const Addresses& addresses) = 0;
};

struct Plan {
  std::vector<Form> tensors, outputs;
  c10::Device device{c10::DeviceType::CPU};
  int threads = 0;
  bool deterministic = false;
  bool gradient = false;  // whether a backward is proved for these sizes
  bool brief = false;     // so little work that letting go of the interpreter's lock would cost more than it gives
  std::shared_ptr<Body> body;
};

// Whether nothing about the calling thread asks for torch's own way: modes, transforms, tracing, and autocast.
inline bool plain_state(c10::DeviceType kind, bool look_at_autocast) {
  const auto local = c10::impl::tls_local_dispatch_key_set();
  if ((local.included_ - c10::default_included_set).raw_repr() != 0) return false;
  if (at::impl::PythonTorchFunctionTLS::stack_len() != 0) return false;
  return !look_at_autocast || !at::autocast::is_autocast_enabled(kind);
}

// What a dense tensor of torch's own has, and nothing else: no lazy negative, batch, functional or sparse tensor.
inline uint64_t plain_functionalities() {
  static const uint64_t allowed = [] {
    auto keys = at::detail::empty_cpu({0}, at::kFloat).key_set();
    return (keys | c10::DispatchKeySet(c10::DispatchKey::AutocastCUDA)).raw_repr() >> c10::num_backends;
  }();
  return allowed;
}

inline bool plain_tensor(const at::Tensor& tensor, c10::Device device) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  if ((impl->key_set().raw_repr() >> c10::num_backends) & ~plain_functionalities()) return false;
  if (impl->device() != device || !tensor.is_contiguous()) return false;
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta == nullptr || meta->fw_grad_ == nullptr;
}

inline bool readable_behind(const void* data, uint64_t bytes) {
  const auto start = reinterpret_cast<uint64_t>(data);
  return bytes % SLACK == 0 || (start + bytes - 1) / PAGE == (start + (bytes | (SLACK - 1))) / PAGE;
}

inline at::Tensor allocated(const Form& form, c10::Device device) {
  if (!device.is_cpu()) return at::empty(form.sizes, at::TensorOptions().dtype(form.dtype).device(device));
  at::Tensor made(at::detail::empty_cpu(form.sizes, form.dtype));
  if (made.numel() == 0 || readable_behind(made.const_data_ptr(), made.nbytes())) return made;
  const int64_t more = static_cast<int64_t>(SLACK / made.element_size());
  at::Tensor wider(at::detail::empty_cpu({made.numel() + more}, form.dtype));
  at::Tensor inside(at::detail::empty_cpu({0}, form.dtype));
  inside.unsafeGetTensorImpl()->set_storage_keep_dtype(wider.storage());
  inside.unsafeGetTensorImpl()->set_sizes_contiguous(form.sizes);
  return inside;
}

// The plans of one direction. Backwards look them up on autograd's threads, without the interpreter's lock.
class Table {
 public:
  uint64_t alignment = 1;
  std::vector<bool> changed;  // which tensors are changed in place

  void add(std::shared_ptr<Plan> plan) {
    const uint64_t key = hash_of(*plan);
    const std::unique_lock lock(mutex_);
    if (plans_.size() >= MOST_PLANS) plans_.clear();
    plans_[key] = std::move(plan);
  }

  void clear() {
    const std::unique_lock lock(mutex_);
    plans_.clear();
  }

  size_t size() const {
    const std::shared_lock lock(mutex_);
    return plans_.size();
  }

  // The plan for these tensors, and their addresses; null where Python has to look.
  std::shared_ptr<const Plan> find(const Tensors& tensors, Addresses& addresses) const {
    if (tensors.empty()) return nullptr;
    const c10::Device device = tensors[0]->device();
    const int threads = device.is_cpu() ? at::get_num_threads() : 0;
    const bool deterministic = at::globalContext().deterministicAlgorithms();
    uint64_t key = started(device, threads, deterministic);
    for (const at::Tensor* one : tensors) {
      if (!plain_tensor(*one, device)) return nullptr;
      key = mixed(key, one->sizes(), one->scalar_type());
    }
    std::shared_ptr<const Plan> plan;
    {
      const std::shared_lock lock(mutex_);
      const auto found = plans_.find(key);
      if (found == plans_.end()) return nullptr;
      plan = found->second;
    }
    if (plan->device != device || plan->threads != threads || plan->deterministic != deterministic) return nullptr;
    if (plan->tensors.size() != tensors.size()) return nullptr;
    for (size_t i = 0; i < tensors.size(); ++i)
      if (!placed(plan->tensors[i], *tensors[i], changed[i], addresses)) return nullptr;
    return overlapping(tensors, addresses) ? nullptr : plan;
  }

 private:
  static uint64_t mixed(uint64_t key, uint64_t value) {
    key = (key ^ value) * 0x9E3779B97F4A7C15ull;
    return key ^ (key >> 29);
  }
  static uint64_t mixed(uint64_t key, c10::IntArrayRef sizes, c10::ScalarType dtype) {
    key = mixed(key, (sizes.size() << 8) | static_cast<uint64_t>(dtype));
    for (const int64_t size : sizes) key = mixed(key, static_cast<uint64_t>(size));
    return key;
  }
  static uint64_t started(c10::Device device, int threads, bool deterministic) {
    const auto where = (static_cast<uint64_t>(device.type()) << 8) | static_cast<uint8_t>(device.index());
    return mixed(1, (where << 33) | (static_cast<uint64_t>(threads) << 1) | static_cast<uint64_t>(deterministic));
  }
  static uint64_t hash_of(const Plan& plan) {
    uint64_t key = started(plan.device, plan.threads, plan.deterministic);
    for (const Form& form : plan.tensors) key = mixed(key, form.sizes, form.dtype);
    return key;
  }

  bool placed(const Form& form, const at::Tensor& tensor, bool written, Addresses& addresses) const {
    if (tensor.scalar_type() != form.dtype || tensor.sizes() != c10::IntArrayRef(form.sizes)) return false;
    void* data = written ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
    addresses.push_back(data);
    if (reinterpret_cast<uint64_t>(data) % alignment != 0) return false;
    if (readable_behind(data, tensor.nbytes())) return true;
    if (written || !tensor.is_cpu() || tensor.nbytes() > COPIED) return false;
    addresses.copies.push_back(allocated(form, tensor.device()));
    addresses.back() = addresses.copies.back().mutable_data_ptr();
    std::memcpy(addresses.back(), data, tensor.nbytes());
    return true;
  }

  // Whether a tensor that is changed shares memory with another: what is left in it then depends on the order.
  bool overlapping(const Tensors& tensors, const Addresses& addresses) const {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!changed[i]) continue;
      const auto* begin = static_cast<char*>(addresses[i]);
      for (size_t j = 0; j < tensors.size(); ++j) {
        const auto* other = static_cast<char*>(addresses[j]);
        if (j != i && begin + tensors[i]->nbytes() > other && other + tensors[j]->nbytes() > begin) return true;
      }
    }
    return false;
  }

  mutable std::shared_mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<const Plan>> plans_;
};

inline std::vector<at::Tensor> carried_out(const Table& table, const Plan& plan, const Tensors& tensors,
                                           Addresses& addresses) {
  std::vector<at::Tensor> outputs;
  outputs.reserve(plan.outputs.size());
  for (const Form& form : plan.outputs) {
    outputs.push_back(allocated(form, plan.device));
    addresses.push_back(outputs.back().mutable_data_ptr());
  }
  plan.body->run(addresses);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (table.changed[i]) tensors[i]->unsafeGetTensorImpl()->bump_version();  // autograd may have saved it
  return outputs;
}

}  // namespace kernelwright
