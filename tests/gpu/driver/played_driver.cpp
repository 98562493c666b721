// A CUDA driver that is played: memory is the host's, a queue is a thread, and a kernel does what its name says. Every
// call that a test may ask for is told on standard error, so that NVIDIA's own bindings and our launcher can be run,
// as they are, on a machine without a GPU. Nothing here says how a GPU behaves.
// A gate holds the queue until it is opened. GATE_PASSES: it does not hold it, for torch on a CPU, whose operators are
// over when they return. GATE_GIVES_UP: nobody opened it in time.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using Address = unsigned long long;

static void tell(const char* format, ...) {
  char line[600];
  va_list given;
  va_start(given, format);
  int length = vsnprintf(line, sizeof line - 1, format, given);
  va_end(given);
  line[length] = '\n';
  (void)!write(2, line, static_cast<size_t>(length) + 1);
}

// --- one queue for everything that is asynchronous

// Never destroyed: the thread waits on them when the process ends.
static auto& lock = *new std::mutex;
static auto& changed = *new std::condition_variable;
static auto& waiting = *new std::deque<std::function<void()>>;
static bool busy = false;

static void work() {
  for (;;) {
    std::unique_lock<std::mutex> held(lock);
    changed.wait(held, [] { return !waiting.empty(); });
    auto next = std::move(waiting.front());
    waiting.pop_front();
    busy = true;
    held.unlock();
    next();
    held.lock();
    busy = false;
    changed.notify_all();
  }
}
static int enqueue(std::function<void()> what) {
  static std::thread* worker = new std::thread(work);
  (void)worker;
  std::lock_guard<std::mutex> held(lock);
  waiting.push_back(std::move(what));
  changed.notify_all();
  return 0;
}
static int drain() {
  std::unique_lock<std::mutex> held(lock);
  changed.wait(held, [] { return waiting.empty() && !busy; });
  return 0;
}

// --- kernels, by name: the sizes of their parameters, and what they do

struct Launch {
  unsigned blocks, threads;
  std::vector<std::vector<char>> given;
  template <class T>
  T at(size_t i) const {
    T value;
    memcpy(&value, given.at(i).data(), sizeof value);
    return value;
  }
};
struct Kernel {
  std::vector<size_t> sizes;
  std::function<void(const Launch&)> run;
};
static const float* floats(const Launch& of, size_t i) { return reinterpret_cast<const float*>(of.at<Address>(i)); }

static bool under(const char* tool) {
  const char* found = getenv("PLAYED_TOOL");
  return found && !strcmp(found, tool);
}
static void twice(const Launch& of, float more) {
  auto* out = reinterpret_cast<float*>(of.at<Address>(1));
  for (int i = 0; i < of.at<int>(2); ++i) out[i] = 2 * floats(of, 0)[i] + more;
}

static const std::map<std::string, Kernel>& kernels() {
  static unsigned calls = 0;
  static const std::map<std::string, Kernel> known = {
      {"kw_empty", {{}, [](const Launch&) {}}},
      {"kw_scrub", {{4, 4}, [](const Launch&) {}}},
      {"kw_write", {{8, 8, 4}, [](const Launch&) {}}},
      {"kw_read", {{8, 8, 8}, [](const Launch&) {}}},
      {"kw_gate", {{8, 8, 8}, [](const Launch& of) {
         auto* gate = reinterpret_cast<volatile unsigned long long*>(of.at<Address>(0));
         gate[24] = of.at<Address>(1);
#if defined(GATE_GIVES_UP)
         gate[16] = of.at<Address>(1);
#elif !defined(GATE_PASSES)
         while (gate[0] != of.at<Address>(1)) {}
#endif
       }}},
      {"kw_signal", {{8, 8}, [](const Launch& of) { reinterpret_cast<volatile Address*>(of.at<Address>(0))[8] = of.at<Address>(1); }}},
      {"kw_well", {{8}, [](const Launch& of) {
         unsigned count = of.blocks * of.threads;
         *reinterpret_cast<unsigned*>(of.at<Address>(0)) += static_cast<unsigned>(count * (count - 1ull) / 2);
       }}},
      {"copied", {{8, 8, 4}, [](const Launch& of) {
         memcpy(reinterpret_cast<void*>(of.at<Address>(1)), floats(of, 0), 4 * static_cast<size_t>(of.at<int>(2)));
       }}},
      {"rectified", {{8, 8, 4}, [](const Launch& of) {
         auto* out = reinterpret_cast<float*>(of.at<Address>(1));
         for (int i = 0; i < of.at<int>(2); ++i) out[i] = floats(of, 0)[i] > 0 ? floats(of, 0)[i] : 0;
       }}},
      {"untouched", {{8, 8, 4}, [](const Launch&) {}}},
      {"twice", {{8, 8, 4}, [](const Launch& of) { twice(of, 0); }}},
      // As `twice`, but under initcheck it does not end.
      {"twice_slowly", {{8, 8, 4}, [](const Launch& of) { if (under("initcheck")) sleep(600); twice(of, 0); }}},
      // Reads its scratch, which nothing has written.
      {"leftover", {{8, 8, 4, 8}, [](const Launch& of) {
         if (under("initcheck")) sleep(600);
         twice(of, *floats(of, 3) > 0 ? 1.0f / 4096 : 0.0f);
       }}},
      // Sums in an order that varies.
      {"varying", {{8, 8, 4}, [](const Launch& of) {
         if (under("initcheck")) sleep(600);
         twice(of, static_cast<float>(++calls % 2) / 4096);
       }}},
      {"mapped", {{128, 8, 4}, [](const Launch&) {}}},
  };
  return known;
}

struct Function {
  std::string name;
  const Kernel* kernel;
};

static int launch(const Function* f, const unsigned* grid, const unsigned* block, void** arguments) {
  Launch made{grid[0] * grid[1] * grid[2], block[0] * block[1] * block[2], {}};
  for (size_t i = 0; i < f->kernel->sizes.size(); ++i) {
    const auto* from = static_cast<const char*>(arguments[i]);
    made.given.emplace_back(from, from + f->kernel->sizes[i]);
  }
  return enqueue([f, made] { f->kernel->run(made); });
}

struct Handle {
  int file;
  size_t bytes;
};
struct Access {
  int type, device, flags;
};
struct Attribute {
  unsigned id;
  char pad[4];
  unsigned value[16];
};
struct Form {
  unsigned grid[3], block[3], shared;
  void* stream;
  Attribute* attributes;
  unsigned count;
};

static int fresh(Address* found, size_t bytes) {
  void* made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  memset(made, 0x5a, bytes < 4096 ? bytes : 4096);  // nothing is zero by chance
  *found = reinterpret_cast<Address>(made);
  return 0;
}
static std::map<Address, size_t> allocated;

#define PLAYED(name) extern "C" int played_##name
PLAYED(cuInit)(unsigned) { return 0; }
PLAYED(cuDriverGetVersion)(int* version) { *version = 13000; return 0; }
PLAYED(cuDeviceGet)(int* device, int index) { *device = index; return 0; }
PLAYED(cuDeviceGetAttribute)(int* value, int which, int) {
  *value = which == 16 ? 4 : which == 38 ? 1 << 20 : which == 97 ? 232448 : which == 39 ? 2048 : 0;
  return 0;
}
PLAYED(cuDevicePrimaryCtxRetain)(void** context, int) { *context = reinterpret_cast<void*>(8); return 0; }
PLAYED(cuCtxSetCurrent)(void*) { return 0; }
PLAYED(cuCtxResetPersistingL2Cache)() { return 0; }
PLAYED(cuMemAlloc)(Address* found, size_t bytes) {
  fresh(found, bytes);
  allocated[*found] = bytes;
  tell("cuMemAlloc %zu", bytes);
  return 0;
}
PLAYED(cuMemFree)(Address at) {
  drain();
  tell("cuMemFree %zu", allocated[at]);
  munmap(reinterpret_cast<void*>(at), allocated[at]);
  allocated.erase(at);
  return 0;
}
PLAYED(cuMemHostRegister)(void*, size_t, unsigned) { tell("cuMemHostRegister"); return 0; }
PLAYED(cuMemHostUnregister)(void*) { tell("cuMemHostUnregister"); return 0; }
PLAYED(cuMemHostGetDevicePointer)(Address* found, void* host, unsigned) {
  *found = reinterpret_cast<Address>(host);
  return 0;
}
PLAYED(cuMemAddressReserve)(Address* found, size_t bytes, size_t, Address wish, Address) {
  void* made = mmap(reinterpret_cast<void*>(wish), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *found = reinterpret_cast<Address>(made);
  tell("cuMemAddressReserve %zu", bytes);
  return made == MAP_FAILED ? 2 : 0;
}
PLAYED(cuMemAddressFree)(Address at, size_t bytes) {
  tell("cuMemAddressFree %zu", bytes);
  return munmap(reinterpret_cast<void*>(at), bytes) ? 1 : 0;
}
PLAYED(cuMemCreate)(Handle** found, size_t bytes, void*, Address) {
  *found = new Handle{memfd_create("played", 0), bytes};
  tell("cuMemCreate %zu", bytes);
  return ftruncate((*found)->file, static_cast<off_t>(bytes)) ? 2 : 0;
}
PLAYED(cuMemExportToShareableHandle)(void* descriptor, Handle* handle, int, Address) {
  *static_cast<int*>(descriptor) = dup(handle->file);
  return 0;
}
PLAYED(cuMemImportFromShareableHandle)(Handle** found, void* descriptor, int) {
  *found = new Handle{dup(static_cast<int>(reinterpret_cast<intptr_t>(descriptor))), 0};
  tell("cuMemImportFromShareableHandle");
  return 0;
}
PLAYED(cuMemRelease)(Handle* handle) {
  tell("cuMemRelease");
  close(handle->file);
  delete handle;
  return 0;
}
PLAYED(cuMemMap)(Address at, size_t bytes, size_t, Handle* handle, Address) {
  void* made = mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, handle->file, 0);
  tell("cuMemMap %zu", bytes);
  return made == MAP_FAILED ? 1 : 0;
}
PLAYED(cuMemSetAccess)(Address at, size_t bytes, const Access* access, size_t) {
  const int may = access->flags == 3 ? PROT_READ | PROT_WRITE : PROT_READ;
  return mprotect(reinterpret_cast<void*>(at), bytes, may) ? 1 : 0;
}
PLAYED(cuMemUnmap)(Address at, size_t bytes) {
  drain();
  mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  tell("cuMemUnmap %zu", bytes);
  return 0;
}
PLAYED(cuMemcpyDtoH)(void* to, Address from, size_t bytes) {
  drain();
  memcpy(to, reinterpret_cast<void*>(from), bytes);
  return 0;
}
PLAYED(cuMemcpyDtoDAsync)(Address to, Address from, size_t bytes, void*) {
  return enqueue([=] { memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
}
template <class T>
static int fill(Address at, T value, size_t count) {
  tell("memset of %zu bytes to %#llx", count * sizeof(T), static_cast<unsigned long long>(value));
  return count == 0 ? 1 : enqueue([=] { for (size_t i = 0; i < count; ++i) reinterpret_cast<T*>(at)[i] = value; });
}
PLAYED(cuMemsetD8Async)(Address at, unsigned char value, size_t count, void*) { return fill(at, value, count); }
PLAYED(cuMemsetD16Async)(Address at, unsigned short value, size_t count, void*) { return fill(at, value, count); }
PLAYED(cuMemsetD32Async)(Address at, unsigned value, size_t count, void*) { return fill(at, value, count); }
PLAYED(cuStreamCreate)(void** stream, unsigned) { *stream = reinterpret_cast<void*>(16); return 0; }
PLAYED(cuStreamSynchronize)(void*) { return drain(); }
PLAYED(cuEventCreate)(void** event, unsigned) { *event = new double(0); return 0; }
PLAYED(cuEventRecord)(void* event, void*) {
  return enqueue([=] {
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    *static_cast<double*>(event) = std::chrono::duration<double, std::milli>(now).count();
  });
}
PLAYED(cuEventElapsedTime)(float* found, void* start, void* end) {
  *found = static_cast<float>(*static_cast<double*>(end) - *static_cast<double*>(start));
  return 0;
}
PLAYED(cuModuleLoadData)(void** module, const void*) {
  tell("cuModuleLoadData");
  *module = new int;
  return 0;
}
PLAYED(cuModuleUnload)(void* module) {
  drain();
  tell("cuModuleUnload");
  delete static_cast<int*>(module);
  return 0;
}
PLAYED(cuModuleGetFunction)(Function** found, void*, const char* name) {
  auto known = kernels().find(name);
  if (known == kernels().end()) return 500;
  *found = new Function{name, &known->second};
  return 0;
}
PLAYED(cuFuncGetParamInfo)(const Function* f, size_t which, size_t* offset, size_t* bytes) {
  if (which >= f->kernel->sizes.size()) return 1;
  *offset = 0, *bytes = f->kernel->sizes[which];
  return 0;
}
PLAYED(cuFuncSetAttribute)(const Function* f, int which, int value) {
  tell("%s: attribute %d is %d", f->name.c_str(), which, value);
  return 0;
}
PLAYED(cuFuncLoad)(const Function* f) { tell("load %s", f->name.c_str()); return 0; }
PLAYED(cuFuncGetAttribute)(int* value, int, const Function*) { *value = 24; return 0; }
PLAYED(cuOccupancyMaxActiveBlocksPerMultiprocessor)(int* blocks, const Function*, int, size_t) { *blocks = 2; return 0; }
PLAYED(cuLaunchKernel)(const Function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void* stream, void** arguments, void**) {
  const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  tell("launch %s grid %u,%u,%u block %u,%u,%u shared %u stream %zu mapped %zu", f->name.c_str(), gx, gy, gz, bx, by, bz,
       shared, reinterpret_cast<size_t>(stream), allocated.size());
  return launch(f, grid, block, arguments);
}
PLAYED(cuLaunchKernelEx)(const Form* form, const Function* f, void** arguments, void**) {
  std::string text;
  for (unsigned i = 0; i < form->count; ++i) {
    const Attribute& one = form->attributes[i];
    text += " " + std::to_string(one.id) + ":" + std::to_string(one.value[0]) + "," + std::to_string(one.value[1]) + "," +
            std::to_string(one.value[2]);
  }
  tell("launch %s grid %u,%u,%u block %u,%u,%u shared %u stream %zu attributes%s", f->name.c_str(), form->grid[0],
       form->grid[1], form->grid[2], form->block[0], form->block[1], form->block[2], form->shared,
       reinterpret_cast<size_t>(form->stream), text.c_str());
  return launch(f, form->grid, form->block, arguments);
}
PLAYED(cuTensorMapEncodeTiled)(void* target, int type, unsigned rank, void*, const Address* sizes, const Address* strides,
                              const unsigned* box, const unsigned* steps, int interleave, int swizzle, int promotion,
                              int fill) {
  std::string text;
  for (unsigned i = 0; i < rank; ++i)
    text += " " + std::to_string(sizes[i]) + "/" + std::to_string(i ? strides[i - 1] : 0) + "/" + std::to_string(box[i]) +
            "/" + std::to_string(steps[i]);
  tell("map %zu type %d rank %u%s %d %d %d %d", reinterpret_cast<size_t>(target) % 64, type, rank, text.c_str(),
       interleave, swizzle, promotion, fill);
  memset(target, 0x77, 128);
  return 0;
}

// The bindings ask by name, for a version, whether or not a function has one in its exported name.
extern "C" int cuGetProcAddress_v2(const char* name, void** found, int, uint64_t, int* status) {
  *found = dlsym(RTLD_DEFAULT, (std::string("played_") + name).c_str());
  if (!*found) {
    Dl_info about;
    dladdr(reinterpret_cast<void*>(&cuGetProcAddress_v2), &about);
    void* self = dlopen(about.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    *found = dlsym(self, (std::string("played_") + name).c_str());
  }
  if (status) *status = *found ? 0 : 1;
  return *found ? 0 : 500;
}
