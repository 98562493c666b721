// The few operations on tensors that host code may ask for: kernels of ours, launched and timed like the author's own.
// Templates: an extension that asks for none has none in its module.
#pragma once
#include "tensor.h"

#ifndef KW_LAUNCH  // the emulator has its own
#define KW_LAUNCH(kernel, blocks, threads, ...) kernel<<<blocks, threads>>>(__VA_ARGS__)
#endif

namespace kw {

struct Strided {
  int64_t sizes[KW_TENSOR_RANK], strides[KW_TENSOR_RANK];
  int64_t rank;  // as wide as the others: no padding, whose bytes would be garbage in a record
  Strided(const kw_tensor& raw) : rank(raw.rank) {
    for (int d = 0; d < KW_TENSOR_RANK; ++d) sizes[d] = raw.sizes[d], strides[d] = raw.strides[d];
  }
  __host__ __device__ int64_t offset(int64_t element) const {
    int64_t found = 0;
    for (int64_t d = rank; d-- > 0; element /= sizes[d]) found += element % sizes[d] * strides[d];
    return found;
  }
};

struct Same { __device__ double operator()(double a, double) const { return a; } };
struct Second { __device__ double operator()(double, double b) const { return b; } };
struct Sum { __device__ double operator()(double a, double b) const { return a + b; } };
struct Difference { __device__ double operator()(double a, double b) const { return a - b; } };
struct Product { __device__ double operator()(double a, double b) const { return a * b; } };
struct Quotient { __device__ double operator()(double a, double b) const { return a / b; } };
struct ReciprocalRoot { __device__ double operator()(double a, double) const { return 1 / ::sqrt(a); } };
struct Root { __device__ double operator()(double a, double) const { return ::sqrt(a); } };
struct Square { __device__ double operator()(double a, double) const { return a * a; } };

// Computed in double and rounded once, which is exact for one operation on floats.
template <class Out, class A, class B, class Op>
__global__ void elementwise(Out* out, Strided to, const A* a, Strided from_a, const B* b, Strided from_b, double number,
                            int64_t count) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= count) return;
  double left = a ? double(a[from_a.offset(i)]) : number;
  double right = b ? double(b[from_b.offset(i)]) : number;
  out[to.offset(i)] = Out(Op()(left, right));
}

template <class T>
__global__ void copy_elements(T* out, Strided to, const T* in, Strided from, int64_t count) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < count) out[to.offset(i)] = in[from.offset(i)];
}

template <class T>
__global__ void reduce_elements(T* out, const T* in, Strided kept, Strided gone, int64_t results, int64_t each,
                                const T* middle, double divisor) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= results) return;
  double sum = 0;
  for (int64_t j = 0; j < each; ++j) {
    double value = double(in[kept.offset(i) + gone.offset(j)]);
    if (middle) value = (value - double(middle[i])) * (value - double(middle[i]));
    sum += value;
  }
  out[i] = T(sum / divisor);
}

inline unsigned blocks_for(int64_t count) { return unsigned((count + 255) / 256); }

template <class Use>
void with_float_type(at::ScalarType type, Use use) {
  switch (type) {
    case at::ScalarType::Float: return use(float());
    case at::ScalarType::Double: return use(double());
    case at::ScalarType::Half: return use(c10::Half());
    case at::ScalarType::BFloat16: return use(c10::BFloat16());
    default: kw_refuse("arithmetic of host code on tensors of integers");
  }
}
template <class Use>
void with_bytes(size_t bytes, Use use) {
  switch (bytes) {
    case 1: return use(uint8_t());
    case 2: return use(uint16_t());
    case 4: return use(uint32_t());
    default: return use(uint64_t());
  }
}

template <class Op>
at::Tensor combined(const at::Tensor& a, const at::Tensor* other, double number, Op, const at::Tensor* into = nullptr) {
  std::vector<int64_t> shape = a.sizes().vec();
  if (other) {  // to the shape of both, as in NumPy
    std::vector<int64_t> second = other->sizes().vec();
    while (second.size() < shape.size()) second.insert(second.begin(), 1);
    while (shape.size() < second.size()) shape.insert(shape.begin(), 1);
    for (size_t d = 0; d < shape.size(); ++d) {
      TORCH_CHECK(shape[d] == second[d] || shape[d] == 1 || second[d] == 1, "shapes ", a.sizes(), " and ",
                  other->sizes(), " do not fit");
      if (shape[d] == 1) shape[d] = second[d];
    }
    TORCH_CHECK(a.scalar_type() == other->scalar_type(), "arithmetic on tensors of two types");
  }
  at::Tensor out = into ? *into : at::empty(shape, a.options());
  at::Tensor left = a.expand(shape), right = other ? other->expand(shape) : left;
  if (out.numel() == 0) return out;
  with_float_type(a.scalar_type(), [&](auto typed) {
    using T = decltype(typed);
    KW_LAUNCH((elementwise<T, T, T, Op>), blocks_for(out.numel()), 256, out.data_ptr<T>(), Strided(out.raw()),
              left.data_ptr<T>(), Strided(left.raw()), other ? right.data_ptr<T>() : static_cast<T*>(nullptr),
              Strided(right.raw()), number, out.numel());
  });
  return out;
}

inline at::Tensor reduced(const at::Tensor& in, at::IntArrayRef dims, bool keepdim, double divisor, const at::Tensor* middle) {
  std::vector<bool> is_gone(in.dim(), dims.empty());
  for (int64_t d : dims) is_gone[at::Tensor::wrapped(d, in.dim())] = true;
  kw_tensor kept{}, gone{};
  std::vector<int64_t> shape;
  int64_t each = 1;
  for (int64_t d = 0; d < in.dim(); ++d) {
    kw_tensor& part = is_gone[d] ? gone : kept;
    part.sizes[part.rank] = in.size(d), part.strides[part.rank++] = in.stride(d);
    if (is_gone[d]) each *= in.size(d);
    if (!is_gone[d] || keepdim) shape.push_back(is_gone[d] ? 1 : in.size(d));
  }
  at::Tensor out = at::empty(shape, in.options());
  with_float_type(in.scalar_type(), [&](auto typed) {
    using T = decltype(typed);
    KW_LAUNCH((reduce_elements<T>), blocks_for(out.numel()), 256, out.data_ptr<T>(), in.data_ptr<T>(), Strided(kept),
              Strided(gone), out.numel(), each, middle ? middle->data_ptr<T>() : static_cast<T*>(nullptr),
              divisor ? divisor * double(each) : 1.0);
  });
  return out;
}

}  // namespace kw

namespace at {

inline const Tensor& Tensor::copy_(const Tensor& from) const {
  Tensor source = from.to(scalar_type()).expand(sizes());
  if (numel() == 0) return *this;
  if (is_contiguous() && source.is_contiguous()) {
    C10_CUDA_CHECK(cudaMemcpyAsync(data_ptr(), source.data_ptr(), nbytes(), cudaMemcpyDeviceToDevice, 0));
    return *this;
  }
  kw::with_bytes(size_t(element_size()), [&](auto typed) {
    using T = decltype(typed);
    KW_LAUNCH((kw::copy_elements<T>), kw::blocks_for(numel()), 256, static_cast<T*>(data_ptr()), kw::Strided(raw()),
              static_cast<const T*>(source.data_ptr()), kw::Strided(source.raw()), numel());
  });
  return *this;
}
inline const Tensor& Tensor::fill_(Scalar value) const {
  if (numel() == 0) return *this;
  if (value.value == 0 && is_contiguous()) {
    C10_CUDA_CHECK(cudaMemsetAsync(data_ptr(), 0, nbytes(), 0));
    return *this;
  }
  kw::combined(*this, nullptr, value.value, kw::Second(), this);
  return *this;
}
inline Tensor Tensor::clone(MemoryFormat) const { return empty(sizes(), options()).copy_(*this); }
inline Tensor Tensor::contiguous(MemoryFormat format) const {
  if (is_contiguous(format)) return *this;
  if (format == MemoryFormat::ChannelsLast && dim() == 4)
    return permute({0, 2, 3, 1}).clone().permute({0, 3, 1, 2});
  return clone();
}
inline Tensor Tensor::to(ScalarType type) const {
  if (type == scalar_type()) return *this;
  Tensor out = empty(sizes(), options().dtype(type));
  if (numel() == 0) return out;
  kw::with_float_type(scalar_type(), [&](auto mine) {
    kw::with_float_type(type, [&](auto wanted) {
      using From = decltype(mine);
      using To = decltype(wanted);
      KW_LAUNCH((kw::elementwise<To, From, From, kw::Same>), kw::blocks_for(numel()), 256, out.data_ptr<To>(),
                kw::Strided(out.raw()), data_ptr<From>(), kw::Strided(raw()), static_cast<From*>(nullptr),
                kw::Strided(raw()), 0.0, numel());
    });
  });
  return out;
}
#define KW_MAPPED(name, Op, number) \
  inline Tensor Tensor::name() const { return kw::combined(*this, nullptr, number, kw::Op()); }
KW_MAPPED(rsqrt, ReciprocalRoot, 0) KW_MAPPED(sqrt, Root, 0) KW_MAPPED(square, Square, 0) KW_MAPPED(neg, Product, -1.0)
#undef KW_MAPPED
inline Tensor Tensor::reciprocal() const { return full_like(*this, 1).div(*this); }
#define KW_ARITHMETIC(name, sign, Op)                                                                               \
  inline Tensor Tensor::name(const Tensor& b) const { return kw::combined(*this, &b, 0, kw::Op()); }                \
  inline Tensor Tensor::name(Scalar b) const { return kw::combined(*this, nullptr, b.value, kw::Op()); }            \
  inline Tensor operator sign(const Tensor& a, const Tensor& b) { return a.name(b); }                               \
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>                                             \
  Tensor operator sign(const Tensor& a, T b) { return a.name(Scalar(b)); }                                          \
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>                                             \
  Tensor operator sign(T a, const Tensor& b) { return full_like(b, a).name(b); }
KW_ARITHMETIC(add, +, Sum) KW_ARITHMETIC(sub, -, Difference) KW_ARITHMETIC(mul, *, Product) KW_ARITHMETIC(div, /, Quotient)
#undef KW_ARITHMETIC
inline Tensor operator-(const Tensor& a) { return a.neg(); }
inline Tensor rsqrt(const Tensor& a) { return a.rsqrt(); }
inline Tensor sqrt(const Tensor& a) { return a.sqrt(); }
inline Tensor Tensor::sum(IntArrayRef dims, bool keepdim) const { return kw::reduced(*this, dims, keepdim, 0, nullptr); }
inline Tensor Tensor::sum() const { return sum(IntArrayRef()); }
inline Tensor Tensor::mean(IntArrayRef dims, bool keepdim) const { return kw::reduced(*this, dims, keepdim, 1, nullptr); }
inline Tensor Tensor::mean() const { return mean(IntArrayRef()); }
inline Tensor Tensor::var(IntArrayRef dims, bool unbiased, bool keepdim) const {
  Tensor middle = mean(dims, true), found = kw::reduced(*this, dims, keepdim, 1, &middle);
  int64_t each = found.numel() ? numel() / found.numel() : 1;
  return unbiased && each > 1 ? found * (double(each) / double(each - 1)) : found;
}

}  // namespace at
