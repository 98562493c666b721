// How an extension's functions are called: by the recorder, and by the glue of the emulator. No C++ types cross here.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define KW_TENSOR_RANK 8

typedef struct {
  void* data;
  int32_t dtype;  // as c10::ScalarType numbers them
  int32_t rank;
  int64_t sizes[KW_TENSOR_RANK];
  int64_t strides[KW_TENSOR_RANK];  // in elements
} kw_tensor;

enum { KW_NONE = 0, KW_TENSOR = 1, KW_INTEGER = 2, KW_REAL = 3, KW_BOOL = 4, KW_LIST = 5 };

typedef struct kw_value {
  int32_t kind;
  int32_t count;  // of a list
  int64_t integer;
  double real;
  kw_tensor tensor;
  const struct kw_value* items;
} kw_value;

// Carries out an operator of a library: the number of tensors in `results`, or -1.
typedef int (*kw_outside)(const char* name, const kw_value* arguments, int count, kw_tensor* results, int room);

#ifdef __cplusplus
extern "C" {
#endif
// Of the extension, for callers that have a library: who carries out its operators. Without one they are refused.
void kw_set_outside(kw_outside outside);
// Of the extension: the number of tensors in `results`, or -1 with a message. Tensors of lists and tuples stand one
// after another.
int kw_call(const char* function, const kw_value* arguments, int count, kw_tensor* results, int room, char* message,
            size_t bytes);
// Provided by the caller: memory of the device, and an end with a reason where host code does what has no record.
void* kw_allocate(size_t bytes);
__attribute__((noreturn)) void kw_refuse(const char* reason);
#ifdef __cplusplus
}
#endif
