// Stands in for torch/extension.h and what it brings: a small at::Tensor of our own, no torch, no pybind11, no Python.
#pragma once
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include <cuda_runtime.h>
#include <math_constants.h>

#include "tensor.h"
#include "compute.h"
#include "accessor.h"
#include "dispatch.h"
#include "streams.h"
#include "binding.h"
#include "library_calls.h"
