// Operators of torch and products of cuBLAS in host code. There is no library here: the process that calls may
// carry them out (contracts/modelnew/confined). Otherwise they are refused by name.
#pragma once
#include <stdexcept>

#include "binding.h"

namespace kw {

inline kw_outside outside = nullptr;

struct Asked {  // the values of one operator, and the lists that they point to
  std::vector<kw_value> values;
  std::vector<std::shared_ptr<std::vector<kw_value>>> lists;

  kw_value made(int kind) { return kw_value{kind, 0, 0, 0, {}, nullptr}; }
  kw_value of(const at::Tensor& tensor) {
    kw_value value = made(tensor.defined() ? KW_TENSOR : KW_NONE);
    if (tensor.defined()) value.tensor = tensor.raw();
    return value;
  }
  kw_value of(const std::optional<at::Tensor>& tensor) { return tensor ? of(*tensor) : made(KW_NONE); }
  kw_value of(bool given) {
    kw_value value = made(KW_BOOL);
    value.integer = given;
    return value;
  }
  kw_value of(int64_t given) {
    kw_value value = made(KW_INTEGER);
    value.integer = given;
    return value;
  }
  kw_value of(double given) {
    kw_value value = made(KW_REAL);
    value.real = given;
    return value;
  }
  template <class T>
  kw_value of(c10::ArrayRef<T> given) {
    auto items = std::make_shared<std::vector<kw_value>>();
    for (const T& one : given) items->push_back(of(one));
    lists.push_back(items);
    kw_value value = made(KW_LIST);
    value.count = int32_t(items->size()), value.items = items->data();
    return value;
  }
};

template <class... Given>
at::Tensor ask(const char* name, const Given&... given) {
  if (!outside) {
    static char text[160];
    const bool product = name[std::string(name).size() - 1] == '_';
    snprintf(text, sizeof text, "%s%s in host code: only a ModelNew has libraries", product ? "a product of cuBLAS" : "torch's ",
             product ? "" : name);
    kw_refuse(text);
  }
  Asked asked;
  (asked.values.push_back(asked.of(given)), ...);
  kw_tensor results[1];
  if (outside(name, asked.values.data(), int(asked.values.size()), results, 1) != 1)
    throw std::runtime_error(std::string(name) + " could not be carried out");
  return at::Tensor(results[0]);
}

// A list of sizes for each dimension, or one number for all.
struct Each {
  std::vector<int64_t> values;
  Each(int64_t one) : values{one} {}
  Each(int one) : values{one} {}
  Each(c10::IntArrayRef several) : values(several.vec()) {}
  Each(std::initializer_list<int64_t> several) : values(several) {}
  Each(const std::vector<int64_t>& several) : values(several) {}
  c10::IntArrayRef list() const { return values; }
};

}  // namespace kw

namespace at {

#define KW_OF_ONE(NAME) \
  inline Tensor NAME(const Tensor& x) { return kw::ask(#NAME, x); }
#define KW_OF_TWO(NAME) \
  inline Tensor NAME(const Tensor& a, const Tensor& b) { return kw::ask(#NAME, a, b); }
#define KW_OF_DIM(NAME) \
  inline Tensor NAME(const Tensor& x, int64_t dim) { return kw::ask(#NAME, x, dim); }
KW_OF_ONE(exp) KW_OF_ONE(log) KW_OF_ONE(tanh) KW_OF_ONE(sigmoid) KW_OF_ONE(relu) KW_OF_ONE(gelu) KW_OF_ONE(silu)
KW_OF_TWO(matmul) KW_OF_TWO(mm) KW_OF_TWO(bmm) KW_OF_TWO(mv)
KW_OF_DIM(softmax) KW_OF_DIM(log_softmax) KW_OF_DIM(cumsum) KW_OF_DIM(cumprod)
#undef KW_OF_ONE
#undef KW_OF_TWO
#undef KW_OF_DIM

inline Tensor addmm(const Tensor& to, const Tensor& a, const Tensor& b) { return kw::ask("addmm", to, a, b); }
inline Tensor baddbmm(const Tensor& to, const Tensor& a, const Tensor& b) { return kw::ask("baddbmm", to, a, b); }
inline Tensor linear(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias = {}) {
  return kw::ask("linear", x, weight, bias);
}
inline Tensor cat(TensorList tensors, int64_t dim = 0) { return kw::ask("cat", tensors, dim); }
inline Tensor stack(TensorList tensors, int64_t dim = 0) { return kw::ask("stack", tensors, dim); }
inline Tensor logsumexp(const Tensor& x, kw::Each dims, bool keepdim = false) {
  return kw::ask("logsumexp", x, dims.list(), keepdim);
}
inline Tensor layer_norm(const Tensor& x, IntArrayRef shape, const std::optional<Tensor>& weight = {},
                         const std::optional<Tensor>& bias = {}, double eps = 1e-5, bool = true) {
  return kw::ask("layer_norm", x, shape, weight, bias, eps);
}
inline Tensor group_norm(const Tensor& x, int64_t groups, const std::optional<Tensor>& weight = {},
                         const std::optional<Tensor>& bias = {}, double eps = 1e-5, bool = true) {
  return kw::ask("group_norm", x, groups, weight, bias, eps);
}
#define KW_CONVOLUTION(NAME)                                                                                      \
  inline Tensor NAME(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias = {},               \
                     kw::Each stride = 1, kw::Each padding = 0, kw::Each dilation = 1, int64_t groups = 1) {      \
    return kw::ask(#NAME, x, weight, bias, stride.list(), padding.list(), dilation.list(), groups);               \
  }
#define KW_TRANSPOSED(NAME)                                                                                       \
  inline Tensor NAME(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias = {},               \
                     kw::Each stride = 1, kw::Each padding = 0, kw::Each more = 0, int64_t groups = 1,            \
                     kw::Each dilation = 1) {                                                                     \
    return kw::ask(#NAME, x, weight, bias, stride.list(), padding.list(), more.list(), groups, dilation.list());  \
  }
#define KW_MAXIMA(NAME)                                                                                           \
  inline Tensor NAME(const Tensor& x, kw::Each window, kw::Each stride, kw::Each padding = 0,                     \
                     kw::Each dilation = 1, bool ceil = false) {                                                  \
    return kw::ask(#NAME, x, window.list(), stride.list(), padding.list(), dilation.list(), ceil);                \
  }                                                                                                               \
  inline Tensor NAME(const Tensor& x, kw::Each window) { return NAME(x, window, window); }
KW_CONVOLUTION(conv1d) KW_CONVOLUTION(conv2d) KW_CONVOLUTION(conv3d)
KW_TRANSPOSED(conv_transpose1d) KW_TRANSPOSED(conv_transpose2d) KW_TRANSPOSED(conv_transpose3d)
KW_MAXIMA(max_pool1d) KW_MAXIMA(max_pool2d) KW_MAXIMA(max_pool3d)
#undef KW_CONVOLUTION
#undef KW_TRANSPOSED
#undef KW_MAXIMA

}  // namespace at

// --- cuBLAS: matrices by columns, as views of the memory that is given -------------------------------------------------

struct KwBlas {};
using cublasHandle_t = KwBlas*;
enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_INITIALIZED = 1, CUBLAS_STATUS_INVALID_VALUE = 7 };
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 };
enum cublasMath_t { CUBLAS_DEFAULT_MATH = 0, CUBLAS_TENSOR_OP_MATH = 1, CUBLAS_PEDANTIC_MATH = 2, CUBLAS_TF32_TENSOR_OP_MATH = 3 };
inline cublasStatus_t cublasCreate(cublasHandle_t* made) {
  static KwBlas one;
  return *made = &one, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasDestroy(cublasHandle_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetStream(cublasHandle_t, cudaStream_t stream) {
  if (stream) kw_refuse("cublasSetStream: a product on a side stream");
  return CUBLAS_STATUS_SUCCESS;
}
inline const char* cublasGetStatusString(cublasStatus_t) { return "a status of cuBLAS"; }

namespace kw {

template <class T>
at::Tensor by_columns(const T* data, cublasOperation_t turned, int64_t rows, int64_t columns, int64_t leading,
                      int64_t between = 0, int64_t count = 0) {
  const int64_t down = turned == CUBLAS_OP_N ? 1 : leading, along = turned == CUBLAS_OP_N ? leading : 1;
  kw_tensor raw{const_cast<T*>(data), int32_t(c10::CppTypeToScalarType<T>::value), 2, {rows, columns}, {down, along}};
  if (count) raw = {raw.data, raw.dtype, 3, {count, rows, columns}, {between, down, along}};
  return at::Tensor(raw);
}

template <class T>
cublasStatus_t product(cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T* alpha, const T* a,
                       int lda, const T* b, int ldb, const T* beta, T* c, int ldc, int64_t sa = 0, int64_t sb = 0,
                       int64_t sc = 0, int count = 0) {
  ask(count ? "baddbmm_" : "addmm_", by_columns(c, CUBLAS_OP_N, m, n, ldc, sc, count),
      by_columns(a, ta, m, k, lda, sa, count), by_columns(b, tb, k, n, ldb, sb, count), double(*beta), double(*alpha));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace kw

#define KW_GEMM(LETTER, T)                                                                                           \
  inline cublasStatus_t cublas##LETTER##gemm(cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m,      \
                                             int n, int k, const T* alpha, const T* a, int lda, const T* b, int ldb, \
                                             const T* beta, T* c, int ldc) {                                         \
    return kw::product(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                                        \
  }                                                                                                                  \
  inline cublasStatus_t cublas##LETTER##gemmStridedBatched(                                                          \
      cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T* alpha, const T* a,   \
      int lda, long long sa, const T* b, int ldb, long long sb, const T* beta, T* c, int ldc, long long sc,          \
      int count) {                                                                                                   \
    return kw::product(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, sa, sb, sc, count);                     \
  }
KW_GEMM(S, float)
KW_GEMM(D, double)
#undef KW_GEMM

namespace at::cuda {
inline cublasHandle_t getCurrentCUDABlasHandle() {
  cublasHandle_t found;
  return cublasCreate(&found), found;
}
}  // namespace at::cuda
