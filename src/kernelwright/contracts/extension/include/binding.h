// PYBIND11_MODULE without Python: the functions that `m.def` names, called with plain values (call_abi.h).
#pragma once
#include <array>
#include <cstdio>
#include <functional>

#include "tensor.h"

namespace kw {

inline const char* given(const kw_value& value) {
  static const char* const names[] = {"None", "a tensor", "an integer", "a number", "a bool", "a list"};
  return names[value.kind];
}

template <class>
inline constexpr bool never = false;
template <class T, class = void>
struct From {
  static_assert(never<T>, "a bound function has a parameter that Python has no value for, a pointer for instance: bind "
                          "the host function, not the kernel");
};
template <>
struct From<at::Tensor> {
  static at::Tensor get(const kw_value& value) {
    TORCH_CHECK(value.kind == KW_TENSOR, "a function takes a tensor where ", given(value), " is given");
    return at::Tensor(value.tensor);
  }
};
template <class T>
struct From<T, std::enable_if_t<std::is_arithmetic_v<T>>> {
  static T get(const kw_value& value) {
    TORCH_CHECK(value.kind >= KW_INTEGER && value.kind <= KW_BOOL, "a function takes a number where ", given(value),
                " is given");
    TORCH_CHECK(std::is_floating_point_v<T> || value.kind != KW_REAL, "a function takes an integer where ", value.real,
                " is given");
    return value.kind == KW_REAL ? static_cast<T>(value.real) : static_cast<T>(value.integer);
  }
};
template <>
struct From<at::Scalar> {
  static at::Scalar get(const kw_value& value) { return From<double>::get(value); }
};
template <class T>
struct From<std::optional<T>> {
  static std::optional<T> get(const kw_value& value) {
    if (value.kind == KW_NONE) return std::nullopt;
    return From<T>::get(value);
  }
};
template <class T>
struct From<std::vector<T>> {
  static std::vector<T> get(const kw_value& value) {
    TORCH_CHECK(value.kind == KW_LIST, "a function takes a list where one value is given");
    std::vector<T> made;
    for (int i = 0; i < value.count; ++i) made.push_back(From<T>::get(value.items[i]));
    return made;
  }
};
template <class... T>
struct From<std::tuple<T...>> {
  static std::tuple<T...> get(const kw_value& value) {
    TORCH_CHECK(value.kind == KW_LIST && value.count == int(sizeof...(T)), "a function takes a tuple of ", sizeof...(T));
    return get(value, std::index_sequence_for<T...>{});
  }
  template <size_t... I>
  static std::tuple<T...> get(const kw_value& value, std::index_sequence<I...>) {
    return {From<T>::get(value.items[I])...};
  }
};

inline bool returned_list = false;  // of the last call: one tensor in a list is not that tensor

struct Results {
  kw_tensor* tensors;
  int room, count = 0;
  void put(const at::Tensor& tensor) {
    TORCH_CHECK(count < room, "a function returns more than ", room, " tensors");
    if (tensor.defined()) tensors[count++] = tensor.raw();
  }
  template <class T>
  std::enable_if_t<std::is_arithmetic_v<T>> put(T) {}
  template <class T>
  void put(const std::vector<T>& values) {
    returned_list = true;
    for (const T& value : values) put(value);
  }
  template <class T, size_t N>
  void put(const std::array<T, N>& values) {
    for (const T& value : values) put(value);
  }
  template <class T>
  void put(const std::optional<T>& value) {
    if (value) put(*value);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& values) { put(values.first), put(values.second); }
  template <class... T>
  void put(const std::tuple<T...>& values) {
    std::apply([this](const auto&... one) { (put(one), ...); }, values);
  }
};

struct Default {  // of a parameter: what py::arg("eps") = 1e-5 says
  bool given = false;
  kw_value value{};
};

struct Function {
  std::string name;
  int parameters;
  std::vector<Default> defaults;
  std::function<void(const kw_value*, Results&)> call;
};

template <class R, class... P, size_t... I>
std::function<void(const kw_value*, Results&)> caller(std::function<R(P...)> target, std::index_sequence<I...>) {
  return [target](const kw_value* values, Results& results) {
    (void)values;
    std::tuple<std::decay_t<P>...> kept{From<std::decay_t<P>>::get(values[I])...};
    if constexpr (std::is_void_v<R>) {
      (void)results;
      target(std::get<I>(kept)...);
    } else {
      results.put(target(std::get<I>(kept)...));
    }
  };
}

}  // namespace kw

namespace pybind11 {

struct none {};
struct arg {
  kw::Default preset;
  explicit arg(const char* = "") {}
  template <class T>
  arg& operator=(const T& value) {
    preset.given = true;
    preset.value.kind = KW_NONE;
    if constexpr (std::is_same_v<T, bool>) {
      preset.value.kind = KW_BOOL, preset.value.integer = value;
    } else if constexpr (std::is_floating_point_v<T>) {
      preset.value.kind = KW_REAL, preset.value.real = value;
    } else if constexpr (std::is_integral_v<T>) {
      preset.value.kind = KW_INTEGER, preset.value.integer = value;
    }
    return *this;
  }
  arg& noconvert(bool = true) { return *this; }
  arg& none(bool = true) { return *this; }
};
namespace literals {
inline arg operator""_a(const char* name, size_t) { return arg(name); }
}  // namespace literals
struct gil_scoped_release {};
template <class...>
struct call_guard {};
struct object {
  kw_value value;
  template <class T>
  T cast() const { return kw::From<std::decay_t<T>>::get(value); }
  bool is_none() const { return value.kind == KW_NONE; }
};
struct tuple : object {
  object operator[](size_t i) const {
    TORCH_CHECK(value.kind == KW_LIST && int(i) < value.count, "index ", i, " of a tuple is out of range");
    return {value.items[i]};
  }
  size_t size() const { return value.kind == KW_LIST ? size_t(value.count) : 0; }
};
using list = tuple;
using sequence = tuple;

struct module_ {
  std::vector<kw::Function>* functions;
  std::string text;
  std::string& doc() { return text; }
  template <class F, class... Extra>
  module_& def(const char* name, F&& function, const Extra&... extra) {
    std::function made = std::forward<F>(function);
    return add(name, made, extra...);
  }

 private:
  template <class R, class... P, class... Extra>
  module_& add(const char* name, const std::function<R(P...)>& function, const Extra&... extra) {
    kw::Function entry{name, int(sizeof...(P)), {}, kw::caller(function, std::index_sequence_for<P...>{})};
    (note(entry, extra), ...);
    functions->push_back(entry);
    return *this;
  }
  static void note(kw::Function& entry, const arg& named) { entry.defaults.push_back(named.preset); }
  template <class Other>
  static void note(kw::Function&, const Other&) {}
};
using module = module_;

}  // namespace pybind11
namespace py = pybind11;

namespace kw {
template <>
struct From<pybind11::object> {
  static pybind11::object get(const kw_value& value) { return {value}; }
};
template <>
struct From<pybind11::tuple> {
  static pybind11::tuple get(const kw_value& value) {
    pybind11::tuple made;
    made.value = value;
    return made;
  }
};

inline int call_one(void (*define)(pybind11::module_&), const char* name, const kw_value* arguments, int count,
                    kw_tensor* results, int room, char* message, size_t bytes) {
  try {
    std::vector<Function> functions;
    pybind11::module_ module{&functions, {}};
    define(module);
    for (const Function& function : functions) {
      if (function.name != name) continue;
      std::vector<kw_value> values(arguments, arguments + count);
      while (values.size() < size_t(function.parameters) && values.size() < function.defaults.size() &&
             function.defaults[values.size()].given)
        values.push_back(function.defaults[values.size()].value);
      TORCH_CHECK(values.size() == size_t(function.parameters), name, " takes ", function.parameters, " arguments and ",
                  count, " are given");
      Results got{results, room};
      returned_list = false;
      function.call(values.data(), got);
      return got.count;
    }
    TORCH_CHECK(false, "PYBIND11_MODULE defines no function ", name);
  } catch (const std::exception& error) {
    snprintf(message, bytes, "%s", error.what());
  } catch (...) {
    snprintf(message, bytes, "an exception of a type of its own");
  }
  return -1;
}
}  // namespace kw

#ifndef PYBIND11_MODULE  // the emulator has its own
#define PYBIND11_MODULE(name, variable, ...)                                                                           \
  static void kw_define_module(::pybind11::module_&);                                                                  \
  extern "C" __attribute__((visibility("default"))) int kw_call(const char* function, const kw_value* arguments,       \
                                                                int count, kw_tensor* results, int room,               \
                                                                char* message, size_t bytes) {                         \
    return ::kw::call_one(kw_define_module, function, arguments, count, results, room, message, bytes);                \
  }                                                                                                                    \
  extern "C" __attribute__((visibility("default"))) int kw_returned_list() { return ::kw::returned_list; }             \
  extern "C" __attribute__((visibility("default"))) void kw_set_outside(kw_outside one) { ::kw::outside = one; }       \
  static void kw_define_module([[maybe_unused]] ::pybind11::module_& variable)
#endif
#ifndef TORCH_EXTENSION_NAME
#define TORCH_EXTENSION_NAME extension
#endif
