// Between the runner's arguments and the functions of an extension.
#pragma once

static inline void kw_tensor_of(kw_value& to, const kw_argument& from, int dtype, int rank) {
  to.kind = KW_TENSOR;
  to.tensor.data = from.data;
  to.tensor.dtype = dtype;
  to.tensor.rank = rank;
  for (int d = 0; d < rank; ++d) to.tensor.sizes[d] = from.sizes[d], to.tensor.strides[d] = from.strides[d];
}

static inline void kw_number(kw_value& to, int kind, const kw_argument& from) {
  to.kind = kind;
  to.integer = from.integer;
  to.real = from.real;
}

static inline int kw_call_named(void (*define)(pybind11::module_&), const char* name, const kw_value* values, int count,
                                kw_tensor* results) {
  char message[400];
  int got = kw::call_one(define, name, values, count, results, 64, message, sizeof message);
  if (got < 0) kw::report("%s", message);
  return got;
}

// What was returned, into the judge's output. It has to have the task's dtype, shape and order; one element in one
// dimension counts as a scalar.
static inline void kw_take(kw_tensor from, const kw_argument& to, int dtype, int rank) {
  if (rank == 0 && from.rank == 1 && from.sizes[0] == 1) from.rank = 0;
  at::Tensor tensor(from);
  if (from.dtype != dtype || from.rank != rank) kw::report("a returned tensor has another type or rank than the task's");
  for (int d = 0; d < rank; ++d)
    if (from.sizes[d] != to.sizes[d]) kw::report("a returned tensor has another shape than the task's");
  if (!tensor.is_contiguous()) kw::report("a returned tensor is not contiguous");
  memcpy(to.data, from.data, tensor.nbytes());
}
