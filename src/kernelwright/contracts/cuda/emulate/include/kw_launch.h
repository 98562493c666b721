// One call of a candidate: its launches one after another, its memory, and globals as a fresh module has them.
#pragma once
#include <link.h>

#include <utility>

#include "kw_warp.h"

namespace kw {

// Scratch holds garbage or zeros; a workspace is zero and must be left so.
enum class Fill { garbage, zero, workspace };

struct Memory {
  const char* name;
  unsigned long bytes;
  Fill fill;
  char* data;
  Memory(const char* name, unsigned long bytes, Fill fill) : name(name), bytes(bytes), fill(fill), data(nullptr) {
    void* got = nullptr;
    if (posix_memalign(&got, 256, bytes) != 0) report("%s: there are no %lu bytes to be had", name, bytes);
    data = static_cast<char*>(got);
    memset(data, fill == Fill::garbage ? 0xff : 0, bytes);
  }
  Memory(const Memory&) = delete;
  ~Memory() {
    machine.geometry.kernel = nullptr;
    if (fill == Fill::workspace)
      for (unsigned long i = 0; i < bytes; ++i)
        if (data[i]) report("the workspace %s is not zero after the call: byte %lu", name, i);
    free(data);
  }
};

struct Argument {
  alignas(64) unsigned char bytes[4096];
  unsigned long size;
  Argument(const char* given, unsigned long size) : size(size) { memcpy(bytes, given, size); }
  Argument&& at(unsigned long where, const void* pointer) && {
    memcpy(bytes + where, &pointer, sizeof pointer);
    return std::move(*this);
  }
};

template <class... P>
struct Call {
  void (*kernel)(P...);
  const Argument* arguments;
  template <unsigned long... I>
  void invoke(std::index_sequence<I...>) const {
    kernel(*reinterpret_cast<const std::remove_reference_t<P>*>(arguments[I].bytes)...);
  }
  static void body(const void* raw) { static_cast<const Call*>(raw)->invoke(std::index_sequence_for<P...>{}); }
};

static unsigned resident_blocks(const Geometry& g) {
  unsigned warps = (machine.threads + kWarp - 1) / kWarp, by_threads = kThreadsPerMultiprocessor / (warps * kWarp);
  unsigned long shared = static_bytes() - sizeof at_least_one + g.shared + 1024;
  unsigned long by_shared = g.shared_per_multiprocessor / shared;
  unsigned long each = by_threads < kBlocksPerMultiprocessor ? by_threads : kBlocksPerMultiprocessor;
  return g.multiprocessors * static_cast<unsigned>(each < by_shared ? each : by_shared ? by_shared : 1);
}

KW_OURS static void run_launch(const Geometry& g, void (*body)(const void*), const void* arguments) {
  machine.geometry = g;
  if (g.grid.x % g.cluster.x || g.grid.y % g.cluster.y || g.grid.z % g.cluster.z)
    report("the grid is no multiple of its cluster");
  machine.body = body;
  machine.arguments = arguments;
  machine.threads = g.block.x * g.block.y * g.block.z;
  machine.cluster_size = g.cluster.x * g.cluster.y * g.cluster.z;
  machine.blocks = static_cast<unsigned long long>(g.grid.x) * g.grid.y * g.grid.z;
  machine.admitted = machine.retired = machine.live_count = 0;
  machine.capacity = resident_blocks(g);
  if (g.cooperative && machine.blocks > machine.capacity)
    report("a cooperative launch of %llu blocks: %u are resident at most", machine.blocks, machine.capacity);
  machine.live = static_cast<Block**>(calloc(machine.capacity, sizeof(Block*)));
  machine.inside = nullptr;
  machine.chance = 0x9e3779b97f4a7c15ull * (machine.calls + 1);
  blockDim = g.block, gridDim = g.grid;
#if KW_ASAN
  ASAN_UNPOISON_MEMORY_REGION(dynamic_shared, sizeof dynamic_shared);
  ASAN_POISON_MEMORY_REGION(dynamic_shared + g.shared, sizeof dynamic_shared - g.shared);
#endif
  run_grid();
  free_blocks();
  free(machine.live);
}

template <class... P>
KW_OURS void launch(const Geometry& g, void (*kernel)(P...), const Argument* arguments, unsigned count) {
  machine.geometry = g;
  const unsigned long sizes[] = {sizeof(P)..., 0};
  if (count != sizeof...(P)) report("the plan gives %u arguments and the kernel takes %zu", count, sizeof...(P));
  for (unsigned i = 0; i < count; ++i)
    if (arguments[i].size != sizes[i])
      report("argument %u has %lu bytes in the plan and %lu in the kernel", i + 1, arguments[i].size, sizes[i]);
  Call<P...> call{kernel, arguments};
  run_launch(g, &Call<P...>::body, &call);
}

// The globals of the library, as they were before the first call.
struct Globals {
  volatile unsigned long long* begin;
  unsigned long bytes;
  unsigned long long* kept;
};

KW_SCHEDULER static int find_globals(dl_phdr_info* info, size_t, void* raw) {
  auto* found = static_cast<Globals*>(raw);
  auto here = reinterpret_cast<ElfW(Addr)>(&machine);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    ElfW(Addr) begin = info->dlpi_addr + part.p_vaddr, end = begin + part.p_memsz;
    if (part.p_type != PT_LOAD || here < begin || here >= end) continue;
    for (int j = 0; j < info->dlpi_phnum; ++j) {
      const ElfW(Phdr)& fixed = info->dlpi_phdr[j];  // read-only after loading
      ElfW(Addr) after = (info->dlpi_addr + fixed.p_vaddr + fixed.p_memsz + 4095) & ~ElfW(Addr)(4095);
      if (fixed.p_type == PT_GNU_RELRO && after > begin && after <= end) begin = after;
    }
    found->begin = reinterpret_cast<volatile unsigned long long*>((begin + 7) & ~ElfW(Addr)(7));
    found->bytes = (end - begin) & ~7ul;
    return 1;
  }
  return 0;
}

KW_SCHEDULER static void fresh_globals() {
  static Globals globals;
  if (!globals.kept) {
    dl_iterate_phdr(find_globals, &globals);
    globals.kept = static_cast<unsigned long long*>(malloc(globals.bytes));
    copy_words(globals.kept, globals.begin, globals.bytes);
    return;
  }
  Globals known = globals;
  Machine kept = machine;
  copy_words(known.begin, known.kept, known.bytes);
  machine = kept;
  globals = known;
}

struct OneCall {
  OneCall() { fresh_globals(); }
  ~OneCall() { ++machine.calls; }
};

}  // namespace kw
