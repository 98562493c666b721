// Tensors as kernels take them by value: packed accessors with sizes and strides.
#pragma once
#include "tensor.h"

namespace at {

template <class T, size_t N, template <class> class Traits, class Index>
struct TensorAccessor {
  typename Traits<T>::PtrType data_;
  const Index* sizes_;
  const Index* strides_;
  __host__ __device__ Index size(Index d) const { return sizes_[d]; }
  __host__ __device__ Index stride(Index d) const { return strides_[d]; }
  __host__ __device__ T* data() const { return data_; }
  __host__ __device__ decltype(auto) operator[](Index i) const {
    if constexpr (N == 1) {
      return (data_[strides_[0] * i]);
    } else {
      return TensorAccessor<T, N - 1, Traits, Index>{data_ + strides_[0] * i, sizes_ + 1, strides_ + 1};
    }
  }
};

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
struct GenericPackedTensorAccessor {
  typename Traits<T>::PtrType data_;
  Index sizes_[N], strides_[N];
  __host__ __device__ Index size(Index d) const { return sizes_[d]; }
  __host__ __device__ Index stride(Index d) const { return strides_[d]; }
  __host__ __device__ T* data() const { return data_; }
  __host__ __device__ decltype(auto) operator[](Index i) const {
    if constexpr (N == 1) {
      return (data_[strides_[0] * i]);
    } else {
      return TensorAccessor<T, N - 1, Traits, Index>{data_ + strides_[0] * i, sizes_ + 1, strides_ + 1};
    }
  }
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, Index>;

template <class Accessor, class T, size_t N>
Accessor packed(const Tensor& tensor) {
  TORCH_CHECK(tensor.dim() == int64_t(N), "expected ", N, " dimensions but found ", tensor.dim());
  Accessor made{};
  made.data_ = tensor.data_ptr<T>();
  for (size_t d = 0; d < N; ++d) {
    made.sizes_[d] = static_cast<decltype(made.sizes_[0] + 0)>(tensor.size(int64_t(d)));
    made.strides_[d] = static_cast<decltype(made.sizes_[0] + 0)>(tensor.stride(int64_t(d)));
  }
  return made;
}
template <class T, size_t N, template <class> class Traits>
auto Tensor::packed_accessor32() const { return packed<PackedTensorAccessor32<T, N, Traits>, T, N>(*this); }
template <class T, size_t N, template <class> class Traits>
auto Tensor::packed_accessor64() const { return packed<PackedTensorAccessor64<T, N, Traits>, T, N>(*this); }

}  // namespace at
