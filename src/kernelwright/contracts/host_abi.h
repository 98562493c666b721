/* What the runner hands to a candidate's glue: one entry for each argument, in the order of the signature. */
#pragma once
#include <stdint.h>

#define KW_MAX_RANK 8

typedef struct {
  void* data;
  int64_t sizes[KW_MAX_RANK];
  int64_t strides[KW_MAX_RANK];
  int64_t integer;
  double real;
} kw_argument;
