// CUDA C++ for a host compiler: every CUDA thread is a fiber. What is not here is refused before it is compiled.
#pragma once
#include "kw_maths.h"
#include "kw_types.h"
#include "kw_half.h"
#include "kw_fp8.h"
#include "kw_memory.h"
#include "kw_launch.h"
#include "kw_groups.h"
#include "kw_ptx.h"

#include <assert.h>

#define __CUDACC__ 1
#define __CUDA_ARCH__ KW_ARCHITECTURE
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __managed__
#define __shared__ static KW_SHARED
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
