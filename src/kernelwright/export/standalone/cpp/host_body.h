// A library of the `cpp` contract: one function, which takes a block of arguments.
#pragma once

#include <cstring>

#include "plan.h"

namespace kernelwright {

constexpr int MOST_RANK = 8;

struct HostArgument {  // kw_argument of the contract's header
  void* data;
  int64_t sizes[MOST_RANK], strides[MOST_RANK], integer;
  double real;
};

class HostBody final : public Body {
 public:
  // `block` has all but addresses; the tensor or output i has its address written to entry places[i].
  HostBody(uint64_t function, std::string block, std::vector<size_t> places, uint64_t set_threads, int threads, int id)
      : run_(reinterpret_cast<void (*)(HostArgument*)>(function)),
        set_threads_(reinterpret_cast<void (*)(int)>(set_threads)),
        threads_(threads),
        id_(id),
        places_(std::move(places)),
        template_(block.size() / sizeof(HostArgument)) {
    if (block.size() % sizeof(HostArgument) != 0) throw std::invalid_argument("the block is not one of arguments");
    for (const size_t place : places_)
      if (place >= template_.size()) throw std::invalid_argument("an argument lies outside of its block");
    std::memcpy(template_.data(), block.data(), block.size());
  }

  void run(const Addresses& addresses) override {
    // On this thread's stack: two threads that shared a block would give both of them wrong results.
    auto* block = static_cast<HostArgument*>(alloca(template_.size() * sizeof(HostArgument)));
    std::memcpy(block, template_.data(), template_.size() * sizeof(HostArgument));
    for (size_t i = 0; i < places_.size(); ++i) block[places_[i]].data = addresses[i];
    if (set_threads_ != nullptr) set_threads_here();
    run_(block);
  }

 private:
  void set_threads_here() const {  // OpenMP has a number for each thread that calls it
    thread_local std::vector<bool> done;
    if (done.size() <= static_cast<size_t>(id_)) done.resize(id_ + 1);
    if (!done[id_]) set_threads_(threads_), done[id_] = true;
  }

  void (*run_)(HostArgument*);
  void (*set_threads_)(int);
  int threads_, id_;
  std::vector<size_t> places_;
  std::vector<HostArgument> template_;
};

}  // namespace kernelwright
