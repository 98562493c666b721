// Records one call of an extension: loads its library, answers for the CUDA runtime, and writes what it was asked to do.
// The function is called again, because a user calls it again: what it does must be the same.
//
//   recorder LIBRARY CALL OUTPUT START GAP
//
// With KW_EMBEDDED it is a library instead, for a process that calls functions of extensions one after another
// (contracts/modelnew/confined/recorded_calls.py).
//
// CALL is a file of words (toolchain/record.py writes it). Tensors are addresses in memory that is reserved and not
// accessible, from START on with GAP bytes between them, so that a read or write stops the process. The library is
// hostile and shares this process: the reader checks what is written here.
#include <cuda_runtime.h>
#undef cudaGetDeviceProperties

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "../include/call_abi.h"

#define KW_ANSWERS extern "C" __attribute__((visibility("default")))

namespace {

using u64 = unsigned long long;
constexpr u64 kGranule = 2ull << 20, kReserved = 1ull << 41;
constexpr size_t kMostSteps = 1024, kMostBuffers = 1024;
constexpr int kLaterCalls = 2;  // that must do what the first did

struct Parameter { unsigned offset, size; };
struct Kernel {
  std::string name;
  int module, dynamic_shared = 49152;
  std::vector<Parameter> parameters;
};
struct Buffer { u64 address, bytes; std::string kind, name; };

const char* output_path;
u64 start, gap, next_address;
std::vector<Buffer> buffers;
std::vector<std::string> steps;
size_t earlier_steps = 0;  // of the host code, before this call of the library
std::vector<std::vector<unsigned char>> modules;
std::map<const void*, Kernel> kernels;
struct Event { int stream; size_t until; };  // it has in it what its stream was given before step `until`
std::map<u64, Event> events;
int stream_count = 0, event_count = 0;
cudaError_t last_error = cudaSuccess;
int multiprocessors = 132, shared_per_block = 232448, l2_bytes = 62914560, capability = 90;

void write_out(const std::string& text) {
  FILE* file = fopen(output_path, "w");
  if (file) fwrite(text.data(), 1, text.size(), file), fclose(file);
}

std::string escaped(const char* text) {
  std::string made;
  for (; *text && made.size() < 300; ++text) {
    unsigned char c = static_cast<unsigned char>(*text);
    if (c == '"' || c == '\\') made += '\\';
    if (c >= 32 && c < 127) made += static_cast<char>(c);
  }
  return made;
}

std::string refused_text;

[[noreturn]] void refuse(const char* format, ...) {
  char text[400];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
#ifdef KW_EMBEDDED
  if (refused_text.empty()) refused_text = escaped(text);
  throw std::runtime_error(text);  // the first one counts, whatever host code does with it
#else
  write_out("{\"refused\": \"" + escaped(text) + "\"}");
  _exit(0);
#endif
}

std::string number(u64 value) { return std::to_string(value); }

std::string hexadecimal(const void* data, size_t bytes) {
  static const char digits[] = "0123456789abcdef";
  std::string made;
  for (size_t i = 0; i < bytes; ++i) {
    unsigned char c = static_cast<const unsigned char*>(data)[i];
    made += digits[c >> 4], made += digits[c & 15];
  }
  return made;
}

void* place(u64 bytes, const char* kind, const char* name) {
  if (buffers.size() >= kMostBuffers * (1 + kLaterCalls)) refuse("host code allocates more than %zu times", kMostBuffers);
  u64 address = next_address, granules = bytes ? (bytes + kGranule - 1) / kGranule : 1;
  if (bytes >= 1ull << 40 || address + granules * kGranule + gap > start + kReserved) refuse("host code allocates %llu bytes", bytes);
  next_address += granules * kGranule + gap;
  buffers.push_back({address, bytes, kind, name});
  return reinterpret_cast<void*>(address);
}

int stream_number(cudaStream_t stream) {
  u64 value = reinterpret_cast<u64>(stream);
  if (value <= 2) return 0;  // the default streams
  if (value >> 16 != 0x5354) refuse("host code uses a stream that it did not create");
  return int(value & 0xffff);
}

void step(const std::string& text) {
  if (steps.size() >= kMostSteps) refuse("host code enqueues more than %zu steps", kMostSteps);
  steps.push_back(text);
}

size_t given_steps() { return earlier_steps + steps.size(); }

std::vector<int> blocking_streams;  // which wait for the default stream, as it does for them

void wait_for(int stream, int on, size_t until) {
  if (stream != on)
    step("{\"op\": \"wait\", \"stream\": " + number(u64(stream)) + ", \"on\": " + number(u64(on)) + ", \"until\": " + number(until) + "}");
}

void work(int stream, const std::string& text) {
  for (int blocking : blocking_streams)
    if (stream == 0) wait_for(0, blocking, given_steps());
    else if (stream == blocking) wait_for(stream, 0, given_steps());
  step(text);
}

bool is_ours(const void* pointer) {
  u64 value = reinterpret_cast<u64>(pointer);
  return value >= start && value < start + kReserved;
}

// --- modules: names and parameters of kernels, as the cubin in the library has them ----------------------------------

template <class T>
T read_at(const std::vector<unsigned char>& data, u64 at) {
  if (at + sizeof(T) > data.size()) refuse("a module of the library is cut off");
  T value;
  memcpy(&value, data.data() + at, sizeof value);
  return value;
}

void read_parameters(int module, u64 elf) {
  const auto& data = modules[module];
  u64 table = elf + read_at<u64>(data, elf + 0x28);
  unsigned size = read_at<unsigned short>(data, elf + 0x3a), count = read_at<unsigned short>(data, elf + 0x3c);
  u64 names = elf + read_at<u64>(data, table + 1ull * read_at<unsigned short>(data, elf + 0x3e) * size + 0x18);
  for (unsigned i = 0; i < count; ++i) {
    u64 header = table + 1ull * i * size, name_at = names + read_at<unsigned>(data, header);
    std::string name;
    while (unsigned char c = read_at<unsigned char>(data, name_at++)) name += static_cast<char>(c);
    if (name.rfind(".nv.info.", 0) != 0) continue;
    u64 at = elf + read_at<u64>(data, header + 0x18), end = at + read_at<u64>(data, header + 0x20);
    std::map<unsigned, Parameter> found;
    while (at + 4 <= end) {
      unsigned char format = read_at<unsigned char>(data, at), attribute = read_at<unsigned char>(data, at + 1);
      unsigned short value = read_at<unsigned short>(data, at + 2);
      at += 4;
      if (format != 4) continue;
      if (attribute == 0x17) found[read_at<unsigned short>(data, at + 4)] = {read_at<unsigned short>(data, at + 6), read_at<unsigned>(data, at + 8) >> 18};
      if (attribute == 0x45) found[read_at<unsigned short>(data, at + 4)] = {read_at<unsigned short>(data, at + 6), read_at<unsigned>(data, at + 8)};
      at += value;
    }
    for (auto& [host, kernel] : kernels)
      if (kernel.module == module && kernel.name == name.substr(9)) {
        kernel.parameters.clear();
        for (auto& [ordinal, parameter] : found) kernel.parameters.push_back(parameter);
      }
  }
}

Kernel* kernel_of(const void* host) {
  auto found = kernels.find(host);
  return found == kernels.end() ? nullptr : &found->second;
}

std::string triple(dim3 v) { return "[" + number(v.x) + "," + number(v.y) + "," + number(v.z) + "]"; }

cudaError_t launch(const void* host, dim3 grid, dim3 block, void** values, size_t shared, cudaStream_t stream, bool cooperative = false,
                   const dim3* cluster = nullptr, bool dependent = false) {
  Kernel* kernel = kernel_of(host);
  if (!kernel) return last_error = cudaErrorInvalidDeviceFunction;
  u64 threads = 1ull * block.x * block.y * block.z;
  if (!grid.x || !grid.y || !grid.z || !threads || threads > 1024 || block.z > 64 || grid.y > 65535 || grid.z > 65535 || grid.x > 2147483647u)
    return last_error = cudaErrorInvalidConfiguration;
  if (shared > size_t(kernel->dynamic_shared)) return last_error = cudaErrorInvalidValue;
  std::string arguments;
  for (size_t i = 0; i < kernel->parameters.size(); ++i)
    arguments += (i ? "," : "") + ("{\"data\": \"" + hexadecimal(values[i], kernel->parameters[i].size) + "\"}");
  work(stream_number(stream), "{\"op\": \"launch\", \"module\": " + number(kernel->module) + ", \"function\": \"" + escaped(kernel->name.c_str()) + "\", \"grid\": " +
       triple(grid) + ", \"block\": " + triple(block) + ", \"arguments\": [" + arguments + "], \"shared\": " + number(shared) +
       (cluster ? ", \"cluster\": " + triple(*cluster) : "") + ", \"cooperative\": " + (cooperative ? "true" : "false") +
       ", \"dependent\": " + (dependent ? "true" : "false") + ", \"stream\": " + number(stream_number(stream)) + "}");
  return cudaSuccess;
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  if (!is_ours(to) || !is_ours(from)) refuse("host code copies between host and device, which no record can have");
  if (bytes) work(stream_number(stream), "{\"op\": \"copy\", \"target\": " + number(u64(to)) + ", \"source\": " + number(u64(from)) + ", \"bytes\": " + number(bytes) +
                  ", \"stream\": " + number(stream_number(stream)) + "}");
  return cudaSuccess;
}

void on_fault(int signal, siginfo_t* info, void*) {
#ifdef KW_EMBEDDED
  if (is_ours(info->si_addr)) fprintf(stderr, "host code reads or writes a tensor's values\n");
  else fprintf(stderr, "host code ended with signal %d\n", signal);
  _exit(98);
#endif
  if (is_ours(info->si_addr)) refuse("host code reads or writes a tensor's values");
  refuse("host code ended with signal %d", signal);
}

void fill(cudaDeviceProp* p) {
  memset(p, 0, sizeof *p);
  strcpy(p->name, "recorder");
  p->major = capability / 10, p->minor = capability % 10, p->multiProcessorCount = multiprocessors, p->warpSize = 32;
  p->maxThreadsPerBlock = 1024, p->maxThreadsPerMultiProcessor = 2048, p->maxBlocksPerMultiProcessor = 32;
  p->sharedMemPerBlock = 49152, p->sharedMemPerBlockOptin = size_t(shared_per_block), p->sharedMemPerMultiprocessor = size_t(shared_per_block) + 1024;
  p->reservedSharedMemPerBlock = 1024, p->regsPerBlock = p->regsPerMultiprocessor = 65536, p->l2CacheSize = l2_bytes;
  p->totalGlobalMem = 64ull << 30, p->totalConstMem = 65536, p->maxGridSize[0] = 2147483647, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64, p->cooperativeLaunch = 1, p->unifiedAddressing = 1;
  p->concurrentKernels = 1;
}

kw_value read_value(FILE* file) {
  kw_value made{};
  char word[80];
  if (fscanf(file, "%79s", word) != 1) refuse("the call is cut off");
  bool good = true;
  if (!strcmp(word, "tensor") || !strcmp(word, "known")) {
    int which = 0;
    made.kind = KW_TENSOR;
    good = fscanf(file, "%d %d %d", &which, &made.tensor.dtype, &made.tensor.rank) == 3 && made.tensor.rank <= KW_TENSOR_RANK;
    for (int d = 0; good && d < made.tensor.rank; ++d) good = fscanf(file, "%ld", &made.tensor.sizes[d]) == 1;
    for (int d = 0; good && d < made.tensor.rank; ++d) good = fscanf(file, "%ld", &made.tensor.strides[d]) == 1;
    good = good && which >= 0 && size_t(which) < buffers.size();
    if (good) made.tensor.data = reinterpret_cast<void*>(buffers[size_t(which)].address);
  } else if (!strcmp(word, "integer") || !strcmp(word, "bool")) {
    made.kind = word[0] == 'b' ? KW_BOOL : KW_INTEGER;
    good = fscanf(file, "%ld", &made.integer) == 1;
  } else if (!strcmp(word, "real")) {
    made.kind = KW_REAL;
    good = fscanf(file, "%lf", &made.real) == 1;
  } else if (!strcmp(word, "list")) {
    made.kind = KW_LIST;
    good = fscanf(file, "%d", &made.count) == 1 && made.count <= 256;
    auto* items = new std::vector<kw_value>;
    for (int i = 0; good && i < made.count; ++i) items->push_back(read_value(file));
    made.items = items->data();
  } else {
    good = !strcmp(word, "none");
  }
  if (!good) refuse("the call cannot be read");
  return made;
}

// --- calls ------------------------------------------------------------------------------------------------------------

struct Call {
  int got;
  kw_tensor results[64];
};

Call made_call(decltype(&kw_call) bound, const char* function, const std::vector<kw_value>& values) {
  Call call{};
  char message[300] = "";
  steps.clear(), events.clear(), stream_count = 0;
  call.got = bound(function, values.data(), int(values.size()), call.results, 64, message, sizeof message);
  if (call.got < 0) refuse("host code raised an exception: %s", message);
  for (int stream : blocking_streams) wait_for(0, stream, given_steps());
  return call;
}

// The buffer of an address, numbered in the order in which they are met, and the offset in it.
std::string renamed(u64 address, std::map<size_t, size_t>& met) {
  size_t number_of = buffers.size();
  while (number_of > 0 && buffers[number_of - 1].address > address) --number_of;
  if (!number_of) return number(address);
  size_t named = met.emplace(number_of, met.size()).first->second;
  return "b" + number(named) + "+" + number(address - buffers[number_of - 1].address);
}

// What a call does, whatever memory it got: what is allocated anew in each call lies elsewhere in each.
std::string without_addresses(const std::vector<std::string>& texts, const Call& call) {
  std::map<size_t, size_t> met;
  std::string made;
  for (const std::string& text : texts)
    for (size_t at = 0; at < text.size();) {
      if (text.compare(at, 9, "\"data\": \"") == 0) {
        for (at += 9; at < text.size() && text[at] != '"';) {
          u64 word = 0;
          size_t digits = std::min<size_t>(16, text.find('"', at) - at);
          for (size_t i = 0; i + 1 < digits; i += 2) word |= u64(std::stoul(text.substr(at + i, 2), nullptr, 16)) << (4 * i);
          made += " " + (is_ours(reinterpret_cast<void*>(word)) ? renamed(word, met) : text.substr(at, digits));
          at += digits;
        }
      } else if (text[at] >= '0' && text[at] <= '9') {
        size_t end = text.find_first_not_of("0123456789", at);
        u64 value = strtoull(text.c_str() + at, nullptr, 10);
        made += is_ours(reinterpret_cast<void*>(value)) ? renamed(value, met) : text.substr(at, end - at);
        at = end;
      } else {
        made += text[at++];
      }
    }
  for (int i = 0; i < call.got; ++i) {
    made += "\n" + renamed(u64(call.results[i].data), met) + " " + number(u64(call.results[i].dtype));
    for (int d = 0; d < call.results[i].rank && d < KW_TENSOR_RANK; ++d) made += " " + number(u64(call.results[i].sizes[d])) + ":" + number(u64(call.results[i].strides[d]));
  }
  return made;
}

}  // namespace

// --- what the library asks of us ------------------------------------------------------------------------------------

KW_ANSWERS void* kw_allocate(size_t bytes) { return place(bytes, "allocation", ""); }
KW_ANSWERS void kw_refuse(const char* reason) { refuse("%s", reason); }

KW_ANSWERS void** __cudaRegisterFatBinary(void* wrapper) {
  auto* fat = *reinterpret_cast<const unsigned char**>(static_cast<char*>(wrapper) + 8);
  u64 bytes = *reinterpret_cast<const u64*>(fat + 8) + *reinterpret_cast<const unsigned short*>(fat + 6);
  modules.emplace_back(fat, fat + bytes);
  return reinterpret_cast<void**>(modules.size());
}
KW_ANSWERS void __cudaRegisterFatBinaryEnd(void** handle) {
  int module = int(reinterpret_cast<size_t>(handle)) - 1;
  const auto& data = modules[size_t(module)];
  for (u64 at = 16; at + 64 <= data.size();) {
    u64 head = read_at<unsigned>(data, at + 4), bytes = read_at<u64>(data, at + 8);
    if (read_at<unsigned short>(data, at) == 2) read_parameters(module, at + head);
    if (!head) break;
    at += head + bytes;
  }
}
KW_ANSWERS void __cudaUnregisterFatBinary(void**) {}
KW_ANSWERS char __cudaInitModule(void**) { return 1; }
KW_ANSWERS void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  kernels[host] = {name, int(reinterpret_cast<size_t>(handle)) - 1};
}
KW_ANSWERS void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
KW_ANSWERS void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, size_t, int, int) {}

namespace {
struct Configuration { dim3 grid, block; size_t shared; cudaStream_t stream; };
std::vector<Configuration> configurations;
}  // namespace
KW_ANSWERS unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
KW_ANSWERS cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations.empty()) return last_error = cudaErrorInvalidConfiguration;
  Configuration c = configurations.back();
  configurations.pop_back();
  *grid = c.grid, *block = c.block, *shared = c.shared, *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}
KW_ANSWERS cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return kernel_of(host) ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}
KW_ANSWERS cudaError_t __cudaLaunchKernel(cudaKernel_t k, dim3 g, dim3 b, void** a, size_t s, cudaStream_t t) { return launch(k, g, b, a, s, t); }
KW_ANSWERS cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t k, dim3 g, dim3 b, void** a, size_t s, cudaStream_t t) { return launch(k, g, b, a, s, t); }
KW_ANSWERS cudaError_t cudaLaunchKernel(const void* f, dim3 g, dim3 b, void** a, size_t s, cudaStream_t t) { return launch(f, g, b, a, s, t); }
KW_ANSWERS cudaError_t cudaLaunchCooperativeKernel(const void* f, dim3 g, dim3 b, void** a, size_t s, cudaStream_t t) {
  return launch(f, g, b, a, s, t, true);
}
KW_ANSWERS cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* f, void** a) {
  bool cooperative = false, dependent = false, clustered = false;
  dim3 cluster;
  for (unsigned i = 0; i < c->numAttrs; ++i) {
    const cudaLaunchAttribute& one = c->attrs[i];
    if (one.id == cudaLaunchAttributeCooperative) cooperative = one.val.cooperative != 0;
    else if (one.id == cudaLaunchAttributeProgrammaticStreamSerialization) dependent = one.val.programmaticStreamSerializationAllowed != 0;
    else if (one.id == cudaLaunchAttributeClusterDimension) clustered = true, cluster = dim3(one.val.clusterDim.x, one.val.clusterDim.y, one.val.clusterDim.z);
    else refuse("a launch has attribute %d, which no record can have", int(one.id));
  }
  return launch(f, c->gridDim, c->blockDim, a, c->dynamicSmemBytes, c->stream, cooperative, clustered ? &cluster : nullptr, dependent);
}
KW_ANSWERS cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  if (!is_ours(to)) return last_error = cudaErrorInvalidValue;
  if (bytes) work(stream_number(stream), "{\"op\": \"memset\", \"address\": " + number(u64(to)) + ", \"bytes\": " + number(bytes) + ", \"value\": " +
                  number(unsigned(value) & 255u) + ", \"stream\": " + number(stream_number(stream)) + "}");
  return cudaSuccess;
}
KW_ANSWERS cudaError_t cudaMemset(void* to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, nullptr); }
KW_ANSWERS cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) { return copy(to, from, bytes, stream); }
KW_ANSWERS cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) { return copy(to, from, bytes, nullptr); }
KW_ANSWERS cudaError_t cudaMemcpyToSymbolAsync(const void*, const void*, size_t, size_t, cudaMemcpyKind, cudaStream_t) {
  refuse("host code writes a device variable (cudaMemcpyToSymbol), which no record can have: pass it to the kernel");
}
KW_ANSWERS cudaError_t cudaMemcpyToSymbol(const void* s, const void* f, size_t b, size_t o, cudaMemcpyKind k) { return cudaMemcpyToSymbolAsync(s, f, b, o, k, nullptr); }
KW_ANSWERS cudaError_t cudaGetSymbolAddress(void**, const void*) { refuse("host code asks for the address of a device variable"); }
KW_ANSWERS cudaError_t cudaMalloc(void** made, size_t bytes) { return *made = kw_allocate(bytes), cudaSuccess; }
KW_ANSWERS cudaError_t cudaMallocAsync(void** made, size_t bytes, cudaStream_t) { return cudaMalloc(made, bytes); }
KW_ANSWERS cudaError_t cudaFree(void*) { return cudaSuccess; }
KW_ANSWERS cudaError_t cudaFreeAsync(void*, cudaStream_t) { return cudaSuccess; }
KW_ANSWERS cudaError_t cudaGetLastError() { cudaError_t found = last_error; return last_error = cudaSuccess, found; }
KW_ANSWERS cudaError_t cudaPeekAtLastError() { return last_error; }
KW_ANSWERS const char* cudaGetErrorString(cudaError_t error) { return error ? "invalid launch or value" : "no error"; }
KW_ANSWERS const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }
KW_ANSWERS cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
KW_ANSWERS cudaError_t cudaSetDevice(int device) { return device ? last_error = cudaErrorInvalidDevice : cudaSuccess; }
KW_ANSWERS cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
KW_ANSWERS cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) { return fill(p), cudaSuccess; }
KW_ANSWERS cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* p, int) { return fill(p), cudaSuccess; }
KW_ANSWERS cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int) {
  switch (what) {
    case cudaDevAttrMaxThreadsPerBlock: case cudaDevAttrMaxBlockDimX: case cudaDevAttrMaxBlockDimY: *value = 1024; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 49152; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = shared_per_block; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = shared_per_block + 1024; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMultiProcessorCount: *value = multiprocessors; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
    case cudaDevAttrComputeCapabilityMajor: *value = capability / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *value = capability % 10; break;
    case cudaDevAttrCooperativeLaunch: *value = 1; break;
    case cudaDevAttrL2CacheSize: *value = l2_bytes; break;
    case cudaDevAttrMaxRegistersPerBlock: case cudaDevAttrMaxRegistersPerMultiprocessor: *value = 65536; break;
    default: refuse("host code asks for device attribute %d, which the recorder does not know", int(what));
  }
  return cudaSuccess;
}
KW_ANSWERS cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute what, int value) {
  Kernel* kernel = kernel_of(host);
  if (!kernel) return last_error = cudaErrorInvalidDeviceFunction;
  if (what != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || value > shared_per_block) return last_error = cudaErrorInvalidValue;
  kernel->dynamic_shared = value;
  return cudaSuccess;
}
KW_ANSWERS cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
KW_ANSWERS cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int threads, size_t shared, unsigned) {
  int by_threads = threads > 0 ? 2048 / ((threads + 31) / 32 * 32) : 0, by_shared = int((size_t(shared_per_block) + 1024) / (shared + 1024));
  return *blocks = std::min({by_threads, by_shared, 32}), cudaSuccess;  // registers are not counted
}
KW_ANSWERS cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* n, const void* f, int t, size_t s) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, f, t, s, 0);
}
KW_ANSWERS cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (++stream_count >= 16) refuse("host code creates more than 15 streams");
  return *stream = reinterpret_cast<cudaStream_t>(0x53540000ull | unsigned(stream_count)), cudaSuccess;
}
KW_ANSWERS cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  cudaError_t made = cudaStreamCreateWithFlags(stream, 0);
  if (std::count(blocking_streams.begin(), blocking_streams.end(), stream_number(*stream)) == 0) blocking_streams.push_back(stream_number(*stream));
  return made;
}
KW_ANSWERS cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) { return cudaStreamCreateWithFlags(stream, flags); }
KW_ANSWERS cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
KW_ANSWERS cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return wait_for(0, stream_number(stream), given_steps()), cudaSuccess; }
KW_ANSWERS cudaError_t cudaDeviceSynchronize() {
  for (int stream = 1; stream <= stream_count; ++stream) wait_for(0, stream, given_steps());
  return cudaSuccess;
}
KW_ANSWERS cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return *event = reinterpret_cast<cudaEvent_t>(0x45560000ull | unsigned(++event_count & 0xffff)), cudaSuccess;
}
KW_ANSWERS cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
KW_ANSWERS cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
KW_ANSWERS cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return events[u64(event)] = {stream_number(stream), given_steps()}, cudaSuccess; }
KW_ANSWERS cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (auto found = events.find(u64(event)); found != events.end()) wait_for(0, found->second.stream, found->second.until);
  return cudaSuccess;
}
KW_ANSWERS cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (auto found = events.find(u64(event)); found != events.end()) wait_for(stream_number(stream), found->second.stream, found->second.until);
  return cudaSuccess;
}
KW_ANSWERS cudaError_t cudaEventElapsedTime(float*, cudaEvent_t, cudaEvent_t) { refuse("host code reads a timer (cudaEventElapsedTime)"); }

namespace {

bool reserve() {
  void* wanted = reinterpret_cast<void*>(start);
  if (mmap(wanted, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != wanted) {
    fprintf(stderr, "the recorder cannot reserve addresses\n");
    return false;
  }
  static char stack[1 << 16];
  stack_t alternative{stack, 0, sizeof stack};
  sigaltstack(&alternative, nullptr);
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigaction(signal, &action, nullptr);
  return true;
}

std::string steps_and_buffers(size_t placed, const std::vector<std::string>& enqueued) {
  std::string text = "\"buffers\": [";
  for (size_t i = 0; i < placed; ++i)
    text += (i ? "," : "") + ("{\"address\": " + number(buffers[i].address) + ", \"bytes\": " + number(buffers[i].bytes) + ", \"kind\": \"" + buffers[i].kind + "\", \"name\": \"" + buffers[i].name + "\"}");
  text += "], \"steps\": [";
  for (size_t i = 0; i < enqueued.size(); ++i) text += (i ? ",\n" : "") + enqueued[i];
  return text + "]";
}

}  // namespace

#ifdef KW_EMBEDDED
KW_ANSWERS void kw_recorder_prepare(u64 begin, u64 between, int processors, int shared, int l2, int compute) {
  start = begin, gap = between, multiprocessors = processors, shared_per_block = shared, l2_bytes = l2, capability = compute;
  if (!reserve()) _exit(3);
}
// Before every call: where the next buffer goes, how many streams there are, and how many steps came before.
KW_ANSWERS void kw_recorder_begin(u64 next, int streams, u64 earlier) {
  next_address = next, stream_count = streams, earlier_steps = earlier;
  buffers.clear(), steps.clear(), refused_text.clear(), blocking_streams.clear(), configurations.clear();
  last_error = cudaSuccess;
}
// In the midst of a call, after its steps were taken and others came to them.
KW_ANSWERS void kw_recorder_go_on(u64 next, u64 earlier) {
  next_address = next, earlier_steps = earlier;
  buffers.clear(), steps.clear();
}
KW_ANSWERS const char* kw_recorder_refused() { return refused_text.c_str(); }
KW_ANSWERS const char* kw_recorder_taken() {
  static std::string text;
  for (int stream : blocking_streams) wait_for(0, stream, given_steps());
  text = "{" + steps_and_buffers(buffers.size(), steps) + ", \"next\": " + number(next_address) + ", \"streams\": " + number(stream_count) + "}";
  return text.c_str();
}
#else
int main(int argc, char** argv) {
  if (argc != 6) return 2;
  output_path = argv[3];
  start = next_address = strtoull(argv[4], nullptr, 10), gap = strtoull(argv[5], nullptr, 10);
  if (!reserve()) return 3;

  FILE* call = fopen(argv[2], "r");
  char function[100], name[80], kind[20];
  int tensors = 0, count = 0;
  if (!call || fscanf(call, "%d %d %d %d", &multiprocessors, &shared_per_block, &l2_bytes, &capability) != 4 || fscanf(call, "%d", &tensors) != 1)
    return 4;
  for (int i = 0; i < tensors; ++i) {
    u64 bytes = 0;
    if (fscanf(call, "%79s %19s %llu", name, kind, &bytes) != 3) return 4;
    place(bytes, kind, name);
  }
  if (fscanf(call, "%99s %d", function, &count) != 2) return 4;
  std::vector<kw_value> values;
  for (int i = 0; i < count; ++i) values.push_back(read_value(call));
  fclose(call);

  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* said = dlerror();
    const char* symbol = strstr(said, "undefined symbol: ");
    refuse(symbol ? "host code calls %s, which the recorder does not have" : "%s", symbol ? symbol + strlen("undefined symbol: ") : said);
  }
  auto bound = reinterpret_cast<decltype(&kw_call)>(dlsym(library, "kw_call"));
  if (!bound) refuse("the library has no PYBIND11_MODULE");
  Call first = made_call(bound, function, values);
  const size_t placed = buffers.size();
  const std::vector<std::string> enqueued = steps;
  const std::string told = without_addresses(steps, first);
  for (int later = 0; later < kLaterCalls; ++later) {
    Call again = made_call(bound, function, values);
    if (without_addresses(steps, again) != told) refuse("host code does other work in a later call than in its first: set in each call what it needs");
  }
  const int got = first.got;
  const kw_tensor* results = first.results;

  static const std::map<int, const char*> dtypes = {{0, "uint8"}, {1, "int8"}, {2, "int16"}, {3, "int32"}, {4, "int64"}, {5, "float16"},
                                                    {6, "float32"}, {7, "float64"}, {11, "bool"}, {15, "bfloat16"}};
  std::string text = "{" + steps_and_buffers(placed, enqueued);
  text += ", \"outputs\": [";
  for (int i = 0; i < got; ++i) {
    auto dtype = dtypes.find(results[i].dtype);
    std::string sizes, strides;
    for (int d = 0; d < results[i].rank && d < KW_TENSOR_RANK; ++d)
      sizes += (d ? "," : "") + std::to_string(results[i].sizes[d]), strides += (d ? "," : "") + std::to_string(results[i].strides[d]);
    text += (i ? "," : "") + ("{\"address\": " + number(u64(results[i].data)) + ", \"dtype\": \"" + (dtype == dtypes.end() ? "" : dtype->second) +
                              "\", \"sizes\": [" + sizes + "], \"strides\": [" + strides + "]}");
  }
  write_out(text + "]}");
  _exit(0);
}
#endif
