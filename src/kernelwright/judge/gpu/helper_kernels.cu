// The judge's own kernels: they hold and release the queue, flush and scrub what a kernel could find, and do nothing.
typedef unsigned long long u64;

__device__ __forceinline__ u64 now() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// Says that everything before it is done, and holds the queue until the word `go` comes from outside.
// Gives up after `limit` nanoseconds and says so.
extern "C" __global__ void kw_gate(volatile u64* gate, u64 go, u64 limit) {
  u64 begin = now();
  gate[24] = go;
  while (gate[0] != go)
    if (now() - begin > limit) {
      gate[16] = go;
      return;
    }
}

extern "C" __global__ void kw_signal(volatile u64* gate, u64 done) {
  gate[8] = done;
  __threadfence_system();
}

extern "C" __global__ void kw_empty() {}

extern "C" __global__ void kw_write(uint4* data, u64 count, unsigned word) {
  u64 step = (u64)gridDim.x * blockDim.x;
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += step) data[i] = make_uint4(word, word, word, word);
}

extern "C" __global__ void kw_read(const uint4* data, u64 count, unsigned* never) {
  u64 step = (u64)gridDim.x * blockDim.x;
  unsigned sum = 0;
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += step) {
    uint4 v = data[i];
    sum += v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x9e3779b9u) *never = sum;  // equal words cancel, so the sum is zero and the loads still have to be made
}

// One block fills the shared memory of one multiprocessor, which kernels do not find cleared.
extern "C" __global__ void kw_scrub(unsigned words, unsigned word) {
  extern __shared__ unsigned shared[];
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) ((volatile unsigned*)shared)[i] = word;
}

// The canary: a sum that every multiprocessor takes part in.
extern "C" __global__ void kw_well(unsigned* sum) { atomicAdd(sum, blockIdx.x * blockDim.x + threadIdx.x); }
