// at::Tensor as a shape, strides, a dtype and an address on the device. Host code never reads what lies there.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ostream>
#include <tuple>
#include <utility>
#include <vector>

#include "call_abi.h"
#include "errors.h"

namespace c10 {

template <class T>
struct ArrayRef {
  ArrayRef() = default;
  ArrayRef(const T* data, size_t count) : data_(data), count_(count) {}
  ArrayRef(const std::vector<T>& values) : data_(values.data()), count_(values.size()) {}
  ArrayRef(const std::initializer_list<T>& values)  // of an expression that outlives the call
      : data_(std::data(values)), count_(values.size()) {}
  ArrayRef(const T& value) : data_(&value), count_(1) {}
  template <size_t N>
  ArrayRef(const T (&values)[N]) : data_(values), count_(N) {}
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  const T& operator[](size_t i) const { return data_[i]; }
  const T* data() const { return data_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + count_; }
  const T& front() const { return data_[0]; }
  const T& back() const { return data_[count_ - 1]; }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
  bool equals(ArrayRef other) const { return count_ == other.count_ && std::equal(begin(), end(), other.begin()); }
  friend bool operator==(ArrayRef a, ArrayRef b) { return a.equals(b); }
  friend bool operator!=(ArrayRef a, ArrayRef b) { return !a.equals(b); }
  friend std::ostream& operator<<(std::ostream& out, ArrayRef values) {
    out << "[";
    for (size_t i = 0; i < values.size(); ++i) out << (i ? ", " : "") << values[i];
    return out << "]";
  }

 private:
  const T* data_ = nullptr;
  size_t count_ = 0;
};
using IntArrayRef = ArrayRef<int64_t>;

struct Device {
  DeviceType kind = DeviceType::CUDA;
  int place = 0;
  Device() = default;
  Device(DeviceType kind, int place = 0) : kind(kind), place(place) {}
  bool is_cuda() const { return kind == DeviceType::CUDA; }
  bool is_cpu() const { return kind == DeviceType::CPU; }
  DeviceType type() const { return kind; }
  int index() const { return place; }
  bool operator==(const Device& other) const { return kind == other.kind && place == other.place; }
  bool operator!=(const Device& other) const { return !(*this == other); }
  friend std::ostream& operator<<(std::ostream& out, const Device& device) {
    return out << (device.is_cuda() ? "cuda:0" : "cpu");
  }
};
template <class T>
using optional = std::optional<T>;
using std::nullopt;
using std::nullopt_t;

struct Scalar {
  double value = 0;
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Scalar(T value) : value(static_cast<double>(value)) {}
  template <class T>
  T to() const { return static_cast<T>(value); }
  double toDouble() const { return value; }
  float toFloat() const { return static_cast<float>(value); }
  int64_t toLong() const { return static_cast<int64_t>(value); }
};

struct TensorOptions {
  ScalarType type = ScalarType::Float;
  Device place{DeviceType::CPU};
  TensorOptions() = default;
  TensorOptions(ScalarType type) : type(type) {}
  TensorOptions(Device place) : place(place) {}
  TensorOptions(DeviceType kind) : place(kind) {}
  TensorOptions dtype(ScalarType wanted) const { return with([&](auto& o) { o.type = wanted; }); }
  TensorOptions device(Device wanted) const { return with([&](auto& o) { o.place = wanted; }); }
  TensorOptions device(DeviceType kind, int index = 0) const { return device(Device(kind, index)); }
  TensorOptions layout(Layout) const { return *this; }
  TensorOptions requires_grad(bool) const { return *this; }
  TensorOptions memory_format(MemoryFormat) const { return *this; }
  ScalarType dtype() const { return type; }
  Device device() const { return place; }

 private:
  template <class Change>
  TensorOptions with(Change change) const {
    TensorOptions copy = *this;
    change(copy);
    return copy;
  }
};

}  // namespace c10

namespace at {

template <class T>
struct DefaultPtrTraits { using PtrType = T*; };
template <class T>
struct RestrictPtrTraits { using PtrType = T* __restrict__; };

struct DeprecatedTypeProperties {
  ScalarType type;
  operator ScalarType() const { return type; }
  ScalarType scalarType() const { return type; }
  bool is_cuda() const { return true; }
};

struct Tensor {
  Tensor() = default;
  explicit Tensor(const kw_tensor& raw) : raw_(std::make_shared<const kw_tensor>(raw)) {}

  const kw_tensor& raw() const {
    TORCH_CHECK(raw_, "a tensor is used that is not defined");
    return *raw_;
  }
  bool defined() const { return raw_ != nullptr; }
  int64_t dim() const { return raw().rank; }
  int64_t ndimension() const { return dim(); }
  IntArrayRef sizes() const { return {raw().sizes, size_t(dim())}; }
  IntArrayRef strides() const { return {raw().strides, size_t(dim())}; }
  int64_t size(int64_t d) const { return sizes()[wrapped(d, dim())]; }
  int64_t stride(int64_t d) const { return strides()[wrapped(d, dim())]; }
  int64_t numel() const {
    int64_t count = 1;
    for (int64_t size : sizes()) count *= size;
    return count;
  }
  ScalarType scalar_type() const { return ScalarType(raw().dtype); }
  ScalarType dtype() const { return scalar_type(); }
  DeprecatedTypeProperties type() const { return {scalar_type()}; }
  int64_t element_size() const { return int64_t(elementSize(scalar_type())); }
  int64_t itemsize() const { return element_size(); }
  size_t nbytes() const { return size_t(numel() * element_size()); }
  int64_t storage_offset() const { return 0; }
  Device device() const { return Device(DeviceType::CUDA, 0); }
  int64_t get_device() const { return 0; }
  bool is_cuda() const { return true; }
  bool is_cpu() const { return false; }
  bool requires_grad() const { return false; }
  bool is_floating_point() const { return isFloatingType(scalar_type()); }
  TensorOptions options() const { return TensorOptions(scalar_type()).device(device()); }
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const {
    if (format == MemoryFormat::ChannelsLast && dim() == 4) return permute({0, 2, 3, 1}).is_contiguous();
    int64_t expected = 1;
    for (int64_t d = dim() - 1; d >= 0; --d) {
      if (sizes()[d] == 1) continue;
      if (strides()[d] != expected) return false;
      expected *= sizes()[d];
    }
    return true;
  }
  bool is_same(const Tensor& other) const { return raw_ == other.raw_; }
  bool is_non_overlapping_and_dense() const { return is_contiguous(); }

  void* data_ptr() const { return raw().data; }
  const void* const_data_ptr() const { return raw().data; }
  void* mutable_data_ptr() const { return raw().data; }
  template <class T>
  T* data_ptr() const {
    constexpr ScalarType wanted = CppTypeToScalarType<std::remove_const_t<T>>::value;
    TORCH_CHECK(wanted == scalar_type(), "expected scalar type ", wanted, " but found ", scalar_type());
    return static_cast<T*>(raw().data);
  }
  template <class T>
  T* data() const { return data_ptr<T>(); }
  template <class T>
  const T* const_data_ptr() const { return data_ptr<T>(); }
  template <class T>
  T* mutable_data_ptr() const { return data_ptr<T>(); }

  // Views: another shape over the same memory.
  Tensor as_strided(IntArrayRef sizes, IntArrayRef strides, int64_t offset = 0) const {
    TORCH_CHECK(sizes.size() <= KW_TENSOR_RANK && sizes.size() == strides.size(), "a view has too many dimensions");
    kw_tensor view = raw();
    view.rank = int32_t(sizes.size());
    std::copy(sizes.begin(), sizes.end(), view.sizes);
    std::copy(strides.begin(), strides.end(), view.strides);
    view.data = static_cast<char*>(view.data) + offset * element_size();
    return Tensor(view);
  }
  Tensor view(IntArrayRef wanted) const {
    TORCH_CHECK(is_contiguous(), "view of a tensor that is not contiguous: use reshape");
    std::vector<int64_t> sizes = wanted.vec(), strides(sizes.size(), 1);
    int64_t known = 1, open = -1;
    for (size_t d = 0; d < sizes.size(); ++d) sizes[d] < 0 ? void(open = int64_t(d)) : void(known *= sizes[d]);
    if (open >= 0) sizes[open] = known ? numel() / known : 0;
    int64_t count = 1;
    for (size_t d = sizes.size(); d-- > 0; count *= sizes[d]) strides[d] = count;
    TORCH_CHECK(count == numel(), "shape ", wanted, " is invalid for a tensor of ", numel(), " elements");
    return as_strided(sizes, strides);
  }
  Tensor reshape(IntArrayRef wanted) const { return contiguous().view(wanted); }
  Tensor view_as(const Tensor& other) const { return view(other.sizes()); }
  Tensor reshape_as(const Tensor& other) const { return reshape(other.sizes()); }
  Tensor flatten(int64_t first = 0, int64_t last = -1) const {
    first = wrapped(first, dim()), last = wrapped(last, dim());
    std::vector<int64_t> shape(sizes().begin(), sizes().begin() + first);
    int64_t merged = 1;
    for (int64_t d = first; d <= last; ++d) merged *= size(d);
    shape.push_back(merged);
    shape.insert(shape.end(), sizes().begin() + last + 1, sizes().end());
    return reshape(shape);
  }
  Tensor permute(IntArrayRef order) const {
    std::vector<int64_t> shape, steps;
    for (int64_t d : order) shape.push_back(size(d)), steps.push_back(stride(d));
    return as_strided(shape, steps);
  }
  Tensor transpose(int64_t a, int64_t b) const {
    std::vector<int64_t> shape = sizes().vec(), steps = strides().vec();
    a = wrapped(a, dim()), b = wrapped(b, dim());
    std::swap(shape[a], shape[b]), std::swap(steps[a], steps[b]);
    return as_strided(shape, steps);
  }
  Tensor t() const { return dim() < 2 ? *this : transpose(0, 1); }
  Tensor squeeze() const {
    std::vector<int64_t> shape, steps;
    for (int64_t d = 0; d < dim(); ++d)
      if (size(d) != 1) shape.push_back(size(d)), steps.push_back(stride(d));
    return as_strided(shape, steps);
  }
  Tensor squeeze(int64_t d) const { return size(d) == 1 ? select(d, 0) : *this; }
  Tensor unsqueeze(int64_t d) const {
    std::vector<int64_t> shape = sizes().vec(), steps = strides().vec();
    d = wrapped(d, dim() + 1);
    int64_t step = d < dim() ? shape[d] * steps[d] : 1;
    shape.insert(shape.begin() + d, 1), steps.insert(steps.begin() + d, step);
    return as_strided(shape, steps);
  }
  Tensor select(int64_t d, int64_t index) const {
    std::vector<int64_t> shape = sizes().vec(), steps = strides().vec();
    d = wrapped(d, dim()), index = wrapped(index, shape[d]);
    int64_t offset = index * steps[d];
    shape.erase(shape.begin() + d), steps.erase(steps.begin() + d);
    return as_strided(shape, steps, offset);
  }
  Tensor operator[](int64_t index) const { return select(0, index); }
  Tensor narrow(int64_t d, int64_t start, int64_t length) const { return slice(d, start, start + length); }
  Tensor slice(int64_t d, int64_t start, int64_t end, int64_t step = 1) const {
    std::vector<int64_t> shape = sizes().vec(), steps = strides().vec();
    d = wrapped(d, dim());
    start = std::clamp<int64_t>(start < 0 ? start + shape[d] : start, 0, shape[d]);
    end = std::clamp<int64_t>(end < 0 ? end + shape[d] : end, start, shape[d]);
    int64_t offset = start * steps[d];
    shape[d] = (end - start + step - 1) / step, steps[d] *= step;
    return as_strided(shape, steps, offset);
  }
  Tensor expand(IntArrayRef wanted) const {
    std::vector<int64_t> shape = wanted.vec(), steps(shape.size(), 0);
    int64_t added = int64_t(shape.size()) - dim();
    TORCH_CHECK(added >= 0, "expand to fewer dimensions");
    for (int64_t d = 0; d < dim(); ++d) {
      if (shape[added + d] == -1) shape[added + d] = size(d);
      TORCH_CHECK(size(d) == 1 || size(d) == shape[added + d], "expand of ", sizes(), " to ", wanted);
      steps[added + d] = size(d) == 1 ? 0 : stride(d);
    }
    return as_strided(shape, steps);
  }
  Tensor expand_as(const Tensor& other) const { return expand(other.sizes()); }
  Tensor detach() const { return *this; }
  Tensor cuda() const { return *this; }
  Tensor set_requires_grad(bool) const { return *this; }

  // What needs values on the host has no record.
  template <class T>
  T item() const { kw_refuse("Tensor::item(): host code reads a tensor's values"); }
  Scalar item() const { kw_refuse("Tensor::item(): host code reads a tensor's values"); }
  Tensor cpu() const { kw_refuse("Tensor::cpu(): host code reads a tensor's values"); }

  // What a small kernel of ours does (compute.h).
  Tensor contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
  Tensor clone(MemoryFormat = MemoryFormat::Contiguous) const;
  Tensor to(ScalarType type) const;
  Tensor to(Device) const { return *this; }
  Tensor to(DeviceType) const { return *this; }
  Tensor to(Device, ScalarType type) const { return to(type); }
  Tensor to(TensorOptions options) const { return to(options.type); }
  Tensor toType(ScalarType type) const { return to(type); }
  Tensor to_type(ScalarType type) const { return to(type); }
  Tensor type_as(const Tensor& other) const { return to(other.scalar_type()); }
  const Tensor& copy_(const Tensor& from) const;
  const Tensor& fill_(Scalar value) const;
  const Tensor& zero_() const { return fill_(0); }
  Tensor new_empty(IntArrayRef sizes) const;
  Tensor new_zeros(IntArrayRef sizes) const;
  Tensor rsqrt() const;
  Tensor sqrt() const;
  Tensor square() const;
  Tensor neg() const;
  Tensor reciprocal() const;
  Tensor mean(IntArrayRef dims, bool keepdim = false) const;
  Tensor mean() const;
  Tensor sum(IntArrayRef dims, bool keepdim = false) const;
  Tensor sum() const;
  Tensor var(IntArrayRef dims, bool unbiased = true, bool keepdim = false) const;
  Tensor add(const Tensor& other) const;
  Tensor sub(const Tensor& other) const;
  Tensor mul(const Tensor& other) const;
  Tensor div(const Tensor& other) const;
  Tensor add(Scalar other) const;
  Tensor sub(Scalar other) const;
  Tensor mul(Scalar other) const;
  Tensor div(Scalar other) const;
  const Tensor& add_(Scalar other) const { return copy_(add(other)); }
  const Tensor& mul_(Scalar other) const { return copy_(mul(other)); }
  const Tensor& div_(Scalar other) const { return copy_(div(other)); }
  const Tensor& add_(const Tensor& other) const { return copy_(add(other)); }
  const Tensor& mul_(const Tensor& other) const { return copy_(mul(other)); }
  const Tensor& div_(const Tensor& other) const { return copy_(div(other)); }

  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  auto packed_accessor32() const;
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  auto packed_accessor64() const;

  static int64_t wrapped(int64_t d, int64_t rank) {
    TORCH_CHECK(d >= -rank && d < rank, "dimension or index ", d, " is out of range: there are ", rank);
    return d < 0 ? d + rank : d;
  }

 private:
  std::shared_ptr<const kw_tensor> raw_;
};

using TensorList = ArrayRef<Tensor>;

inline Tensor empty(IntArrayRef sizes, TensorOptions options = {}, std::optional<MemoryFormat> = {}) {
  TORCH_CHECK(sizes.size() <= KW_TENSOR_RANK, "a tensor has at most ", KW_TENSOR_RANK, " dimensions");
  kw_tensor made{};
  made.dtype = int32_t(options.type);
  made.rank = int32_t(sizes.size());
  int64_t count = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    TORCH_CHECK(sizes[d] >= 0 && sizes[d] < (int64_t(1) << 40) && count < (int64_t(1) << 40), "size ", sizes[d]);
    made.sizes[d] = sizes[d];
    made.strides[d] = count;
    count *= sizes[d];
  }
  made.data = kw_allocate(size_t(count) * elementSize(options.type));
  return Tensor(made);
}
inline Tensor empty_like(const Tensor& like, TensorOptions options, std::optional<MemoryFormat> = {}) {
  return empty(like.sizes(), options);
}
inline Tensor empty_like(const Tensor& like) { return empty(like.sizes(), like.options()); }
inline Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, TensorOptions options = {}) {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
  return empty(last + 1, options).as_strided(sizes, strides);
}
inline Tensor zeros(IntArrayRef sizes, TensorOptions options = {}) { return empty(sizes, options).zero_(); }
inline Tensor zeros_like(const Tensor& like, TensorOptions options) { return zeros(like.sizes(), options); }
inline Tensor zeros_like(const Tensor& like) { return zeros(like.sizes(), like.options()); }
inline Tensor full(IntArrayRef sizes, Scalar value, TensorOptions options = {}) {
  return empty(sizes, options).fill_(value);
}
inline Tensor tensor(Scalar value, TensorOptions options = {}) { return full(IntArrayRef(), value, options); }
inline Tensor scalar_tensor(Scalar value, TensorOptions options = {}) { return tensor(value, options); }
inline Tensor full_like(const Tensor& like, Scalar value) { return full(like.sizes(), value, like.options()); }
inline Tensor ones(IntArrayRef sizes, TensorOptions options = {}) { return full(sizes, 1, options); }
inline Tensor ones_like(const Tensor& like) { return full_like(like, 1); }
inline Tensor Tensor::new_empty(IntArrayRef sizes) const { return empty(sizes, options()); }
inline Tensor Tensor::new_zeros(IntArrayRef sizes) const { return zeros(sizes, options()); }
inline std::optional<Device> device_of(const Tensor& tensor) { return tensor.device(); }

}  // namespace at
